package simulate

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

// generator brings the requests of a description.
type generator struct {
	traffic *Traffic
	groups  []*group
}

// group is one group of clients and its next requests.
type group struct {
	client     *Client
	index      int
	random     *rand.Rand
	popularity popularity
	requests   map[int]*explain.Request // by the client's number
	end        int64
	next       float64 // us; of the steady traffic
	burst      int64   // us; of the next burst
	left       int     // requests of the burst that is being sent
	sender     int     // of that burst
}

// Generate brings the requests of a description, which Check has accepted, the
// same ones for the same seed.
func Generate(t *Traffic, seed uint64) source {
	g := &generator{traffic: t}
	for i := range t.Clients {
		c := &t.Clients[i]
		one := &group{
			client: c, index: i,
			random:     rand.New(rand.NewPCG(seed, uint64(i)+100)),
			popularity: newPopularity(c.Identities, c.Zipf),
			requests:   map[int]*explain.Request{},
			end:        int64(t.Duration),
			next:       float64(c.From),
			burst:      int64(c.From),
		}
		if c.To > 0 {
			one.end = min(one.end, int64(c.To))
		}
		one.step()
		if c.Burst.Size > 0 {
			one.startBurst()
		} else {
			one.burst = one.end
		}
		g.groups = append(g.groups, one)
	}
	return g
}

func (g *generator) durationMicros() int64 { return int64(g.traffic.Duration) }

// next is the earliest of the groups' next requests.
func (g *generator) next() *request {
	var first *group
	for _, one := range g.groups {
		if one.at() < one.end && (first == nil || one.at() < first.at()) {
			first = one
		}
	}
	if first == nil {
		return nil
	}
	r := &request{client: first.client, group: first.index, attempt: 1, atMicros: first.at()}
	n := first.sender
	if int64(first.next) < first.burst {
		n = first.popularity.draw(first.random)
		first.step()
	} else if first.left--; first.left == 0 {
		first.burst += int64(first.client.Burst.Every)
		first.startBurst()
	}
	r.http = first.request(n)
	return r
}

// at is when the group sends next.
func (g *group) at() int64 { return min(int64(g.next), g.burst) }

// step goes to the next request of the steady traffic.
func (g *group) step() {
	switch {
	case g.client.Rate == 0:
		g.next = float64(g.end)
	case g.client.Arrivals == "even":
		g.next += 1e6 / g.client.Rate
	default:
		g.next += g.random.ExpFloat64() * 1e6 / g.client.Rate
	}
}

// startBurst chooses whose burst it is.
func (g *group) startBurst() {
	g.left, g.sender = g.client.Burst.Size, g.popularity.draw(g.random)
}

// request is a client's request, made once.
func (g *group) request(n int) *explain.Request {
	if known := g.requests[n]; known != nil {
		return known
	}
	made, err := g.client.request(n)
	if err != nil { // the first client's was fine: a network with too few addresses
		made = g.request(1)
	}
	g.requests[n] = made
	return made
}

// What was measured, by "make bench-lua" on Redis 7.0 (docs/algorithms.md, "Which
// one", and docs/sizing.md) and by "make bench" (docs/benchmarks.md).
const (
	callNanos = 1400 // of Redis' core for EVALSHA 'return 1': 1.1 to 1.7 us
	readNanos = 7000 // of the same to read what arrives on a connection, and to answer
)

// relative is a check's cost in those of EVALSHA 'return 1', admitted: these are figures, which no property of an
// algorithm tells.
var relative = map[algo.Algorithm]float64{
	algo.FixedWindow: 3.3, algo.SlidingWindowLog: 5.4, algo.SlidingWindowCounter: 3.6,
	algo.TokenBucket: 3.8, algo.LeakyBucket: 3.8, algo.GCRA: 3.8,
	algo.Concurrency: 6.0, // with what gives the slot back
}

// penaltyBytes is the memory of one identity of a penalty.
const penaltyBytes = 182

// bytesOf is the memory of one identity, its key and expiry included.
func bytesOf(l *algo.Limit, s algo.State) int64 {
	switch l.Algorithm {
	case algo.FixedWindow:
		if !l.FromFirstRequest {
			return 150
		}
	case algo.SlidingWindowLog:
		units := int64(0)
		for i := 2; i < len(s); i += 3 { // behind the times of the first and the last
			units += s[i]
		}
		if units <= 128 {
			return 214 + 32*max(0, units-1)
		}
		return 126 * min(units, 4098) // entries
	case algo.SlidingWindowCounter:
		return 198 + 4*max(0, l.SubWindows-1)
	case algo.Concurrency:
		requests := int64(len(s) / 3)
		if requests <= 128 {
			return 198 + 39*max(0, requests-1)
		}
		return 126 * requests
	}
	return 182
}

// checkNanos is the cost of one call on Redis' core: of several limits in one call,
// each further one adds what it does apart from the call itself.
func checkNanos(limits []algo.Limit) int64 {
	sum := 1.0
	for i := range limits {
		one := relative[limits[i].Algorithm]
		if limits[i].SubWindows > 1 {
			one = 5.9
		}
		sum += one - 1
	}
	return int64(sum * callNanos)
}
