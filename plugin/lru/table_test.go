package lru

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The table does what a slow model does, whatever is asked of it.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3, 16, 100} {
		random := rand.New(rand.NewPCG(uint64(size), 1))
		table := New[int, int](size, 1)
		var order []string // of the identities, the last used first
		values := map[string]int{}
		for i := range 20_000 {
			list, tag := random.IntN(3), fmt.Append(nil, random.IntN(2*size))
			key := fmt.Sprint(list, "|", string(tag))
			place := slices.Index(order, key)
			known := place >= 0
			switch action := random.IntN(100); {
			case action == 0:
				table.Clear()
				order = nil
				continue
			case action <= 20:
				value, fresh := table.Put(list, tag)
				*value, values[key] = i, i
				if fresh == known {
					t.Fatalf("size %d, step %d: Put(%s) is fresh: %v", size, i, key, fresh)
				}
			default:
				value := table.Get(list, tag)
				if known != (value != nil) {
					t.Fatalf("size %d, step %d: Get(%s) found it: %v, want %v", size, i, key, value != nil, known)
				}
				if !known {
					continue
				}
				if *value != values[key] {
					t.Fatalf("size %d, step %d: Get(%s) = %d, want %d", size, i, key, *value, values[key])
				}
			}
			if known {
				order = slices.Delete(order, place, place+1)
			}
			order = slices.Insert(order, 0, key)
			order = order[:min(len(order), size)]
		}
	}
}

// Identities with one tag under two lists of limits are two.
func TestLists(t *testing.T) {
	t.Parallel()
	table := New[int, int](4, 1)
	a, _ := table.Put(1, []byte("x"))
	*a = 7
	if b, fresh := table.Put(2, []byte("x")); !fresh || b == a {
		t.Error("two lists share a value")
	}
}

// What comes and goes does not allocate once the table is full.
func TestAllocations(t *testing.T) {
	table, n := New[int, int](64, 1), 0
	tag := []byte("0000000000")
	next := func() {
		n++
		for i, rest := len(tag)-1, n; i >= 0; i, rest = i-1, rest/10 {
			tag[i] = byte('0' + rest%10)
		}
		table.Put(0, tag)
	}
	for range 100 {
		next()
	}
	if got := testing.AllocsPerRun(1000, next); got != 0 {
		t.Errorf("%v allocations for each identity", got)
	}
}
