package metric

import (
	"math/bits"
	"math/rand/v2"
)

// sampleSize is how many values of a histogram one flush hands on: each is a call
// to the host, as the ABI knows no other way.
//
// Bound: values of a histogram in one flush. Beyond it, a uniform sample stands for all. Protects
// host calls.
const sampleSize = 64

// histogram keeps a uniform sample of the values between two flushes, all of them
// up to sampleSize (algorithm R; J. S. Vitter, "Random Sampling with a Reservoir",
// ACM TOMS 11, 1985). A busy second thus counts as much as any other that has
// sampleSize values: quantiles weigh time, not requests.
type histogram struct {
	id     uint32
	seen   uint64
	values [sampleSize]int64
}

func (h *histogram) observe(value int64, random *rand.PCG) {
	at := h.seen
	h.seen++
	if at >= sampleSize {
		at, _ = bits.Mul64(random.Uint64(), h.seen) // uniform below seen
	}
	if at < sampleSize {
		h.values[at] = value
	}
}

func (h *histogram) flush(host Host) {
	if h.id != 0 {
		for _, v := range h.values[:min(h.seen, sampleSize)] {
			host.Record(h.id, uint64(max(0, v)))
		}
	}
	h.seen = 0
}
