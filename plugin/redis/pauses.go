package redis

// pauses are the times between attempts that fail: they double from the shortest
// to the longest and vary by a fifth at random, never beyond these two, so that
// the workers of a mesh do not try in step
// (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/).
type pauses struct {
	shortestMicros, longestMicros int64
	random                        *random
	baseMicros                    int64 // the last pause without its jitter; 0: none yet
}

// next is the length of another pause.
func (p *pauses) next() int64 {
	p.baseMicros = min(max(2*p.baseMicros, p.shortestMicros), p.longestMicros)
	high := min(p.baseMicros+p.baseMicros/4, p.longestMicros)
	low := max(high-high/5, p.shortestMicros)
	return low + p.random.below(high-low+1)
}

// reset makes the next pause the shortest.
func (p *pauses) reset() { p.baseMicros = 0 }

// random is SplitMix64, good from any seed, for jitter and for nonces that differ
// between workers (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014).
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1, for n of at least 1.
func (r *random) below(n int64) int64 {
	return int64(r.next() % uint64(n))
}
