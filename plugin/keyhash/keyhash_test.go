package keyhash

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
)

// TestSumSpreads fills tables as full as they get: by low bits, as buckets are chosen, and
// by high ones. No bucket gets many more than its share, whatever the identities look like.
func TestSumSpreads(t *testing.T) {
	t.Parallel()
	const size, most = 4096, 12 // a thousand full tables have no bucket of more
	for name, format := range map[string]string{
		"short": "%d", "address": "r|10.0.%d.7", "long": "a-rule|" + strings.Repeat("x", 40) + "%d", "padded": "%016d%016d",
	} {
		low, high := [size]int{}, [size]int{}
		for i := range size {
			h := New(7).Sum(fmt.Appendf(nil, strings.ReplaceAll(format, "%016d%016d", "%016[1]d%016[1]d"), i))
			low[h%size]++
			high[h>>52]++
		}
		for i := range size {
			if low[i] > most || high[i] > most {
				t.Errorf("%s: bucket %d has %d by low bits, %d by high ones", name, i, low[i], high[i])
			}
		}
	}
}

// TestKeysDiffer: what collides under one key does not under another, and every byte of an
// identity and every bit of the seed count.
func TestKeysDiffer(t *testing.T) {
	t.Parallel()
	for n := range 70 {
		b := []byte(strings.Repeat("k", n))
		before := New(1).Sum(b)
		for i := range b {
			b[i] ^= 1
			if New(1).Sum(b) == before {
				t.Errorf("byte %d of %d does not count", i, n)
			}
			b[i] ^= 1
		}
		for bit := range 64 {
			if changed := bits.OnesCount64(New(1^1<<bit).Sum(b) ^ before); changed < 10 {
				t.Errorf("%d bytes: bit %d of the seed changes %d bits", n, bit, changed)
			}
		}
	}
}
