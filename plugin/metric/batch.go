// Package metric counts in memory and hands what has changed to Envoy's
// statistics in batches: a call into Envoy costs many times what counting does,
// which is one addition. Counting and flushing allocate nothing.
//
// Envoy's workers share each statistic, while each has a Batch of its own.
// Counters add up by themselves; of gauges see Sum and Last.
//
// Time is an argument: microseconds of a monotonic clock.
package metric

import (
	"math/bits"
	"math/rand/v2"
)

// FlushMicros is how long after the first change a Batch is due.
//
// Bound: us from a change to Envoy's statistics. Below it, changes are counted in the worker alone.
// Protects requests: a host call costs many times an addition.
const FlushMicros = 1_000_000

// Kind is the type of a metric, as numbered by the ABI
// (https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md#metrics).
type Kind uint32

// The kinds.
const (
	CounterKind Kind = iota
	GaugeKind
	HistogramKind
)

// Host is where the metrics are.
type Host interface {
	// Define returns the id of the metric of a name, new or not; 0 if there can be
	// none.
	Define(kind Kind, name string) (id uint32)
	// Add changes a counter, by 1 at least, or a gauge.
	Add(id uint32, delta int64)
	// Record sets a gauge, or gives a histogram one value.
	Record(id uint32, value uint64)
}

// The metrics of a Batch. The zero Counter counts into the void.
type (
	Counter   int32
	Gauge     int32
	Histogram int32
)

// Batch holds one worker's counts since the last Flush.
type Batch struct {
	host       Host
	counters   []counter
	gauges     []gauge
	histograms []histogram
	random     rand.PCG
	changed    bool
	dueMicros  int64 // 0 until NextMicros has seen the change
}

type counter struct {
	id    uint32
	count int64 // since the last flush
}

type gauge struct {
	id    uint32
	last  bool
	show  bool // even what this worker has told before, see Show
	value int64
	told  int64
}

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

// New makes a Batch without metrics. The seed, different in each worker, is for
// the samples of histograms.
func New(host Host, seed uint64) *Batch {
	return &Batch{host: host, counters: make([]counter, 1), random: *rand.NewPCG(seed, 0)}
}

// Void makes a Batch that discards all counts: nothing in it is ever due.
func Void() *Batch { return New(nil, 0) }

// define returns the id of a metric; 0 in a void Batch.
func (b *Batch) define(kind Kind, name string) uint32 {
	if b.host == nil {
		return 0
	}
	return b.host.Define(kind, name)
}

// Counter defines a counter.
func (b *Batch) Counter(name string) Counter {
	b.counters = append(b.counters, counter{id: b.define(CounterKind, name)})
	return Counter(len(b.counters) - 1)
}

// Sum defines a gauge that shows the sum of what the workers have set.
func (b *Batch) Sum(name string) Gauge { return b.gauge(name, false) }

// Last defines a gauge that shows what was set last by any worker.
func (b *Batch) Last(name string) Gauge { return b.gauge(name, true) }

func (b *Batch) gauge(name string, last bool) Gauge {
	b.gauges = append(b.gauges, gauge{id: b.define(GaugeKind, name), last: last})
	return Gauge(len(b.gauges) - 1)
}

// Histogram defines a histogram.
func (b *Batch) Histogram(name string) Histogram {
	b.histograms = append(b.histograms, histogram{id: b.define(HistogramKind, name)})
	return Histogram(len(b.histograms) - 1)
}

// Inc counts 1.
//
//go:inline
func (b *Batch) Inc(c Counter) {
	b.counters[c].count++
	b.changed = true
}

// Add counts n, if it is above 0.
func (b *Batch) Add(c Counter, n int64) {
	if n > 0 {
		b.counters[c].count += n
		b.changed = true
	}
}

// Counted is a counter's count since the last Flush.
func (b *Batch) Counted(c Counter) int64 { return b.counters[c].count }

// Set sets a gauge.
func (b *Batch) Set(g Gauge, value int64) {
	if b.gauges[g].value != value {
		b.gauges[g].value = value
		b.changed = true
	}
}

// Show sets a gauge that Last has defined: with the next flush it shows the value, whatever
// others have set since this worker last did.
func (b *Batch) Show(g Gauge, value int64) {
	b.gauges[g].value, b.gauges[g].show = value, true
	b.changed = true
}

// Observe gives a value to a histogram. If many come between two flushes, the
// histogram keeps a sample.
func (b *Batch) Observe(h Histogram, value int64) {
	b.changed = true
	into := &b.histograms[h]
	at := into.seen
	into.seen++
	if at >= sampleSize {
		at, _ = bits.Mul64(b.random.Uint64(), into.seen) // uniform below seen
	}
	if at < sampleSize {
		into.values[at] = value
	}
}

// Touch makes a flush due, as if something had changed.
func (b *Batch) Touch() { b.changed = true }

// Pending reports whether a flush is scheduled, or never will be.
func (b *Batch) Pending() bool { return b.dueMicros > 0 || b.host == nil }

// NextMicros is the time until the next flush, at least 1; 0 if there is nothing
// to flush. A change is timed from the first call after it.
func (b *Batch) NextMicros(nowMicros int64) int64 {
	if !b.changed || b.host == nil {
		return 0
	}
	if b.dueMicros == 0 {
		b.dueMicros = nowMicros + FlushMicros
	}
	return max(1, b.dueMicros-nowMicros)
}

// Due reports whether it is time to flush.
func (b *Batch) Due(nowMicros int64) bool { return b.dueMicros > 0 && nowMicros >= b.dueMicros }

// Flush hands everything to the host.
func (b *Batch) Flush() {
	b.changed, b.dueMicros = false, 0
	if b.host == nil {
		return
	}
	for i := range b.counters {
		if c := &b.counters[i]; c.count > 0 {
			if c.id != 0 {
				b.host.Add(c.id, c.count)
			}
			c.count = 0
		}
	}
	for i := range b.gauges {
		g := &b.gauges[i]
		switch {
		case g.value == g.told && !g.show || g.id == 0:
		case g.last:
			b.host.Record(g.id, uint64(g.value))
		default:
			b.host.Add(g.id, g.value-g.told)
		}
		g.told, g.show = g.value, false
	}
	for i := range b.histograms {
		h := &b.histograms[i]
		if h.id != 0 {
			for _, v := range h.values[:min(h.seen, sampleSize)] {
				b.host.Record(h.id, uint64(max(0, v)))
			}
		}
		h.seen = 0
	}
}

// Close flushes, and takes this worker's part out of the sums.
func (b *Batch) Close() {
	for i := range b.gauges {
		if g := &b.gauges[i]; !g.last {
			g.value = 0
		}
	}
	b.Flush()
}
