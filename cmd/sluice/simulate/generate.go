package simulate

import (
	"math/rand/v2"

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
	return first.take()
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

// take is the next request.
func (g *group) take() *request {
	r := &request{client: g.client, group: g.index, attempt: 1, atMicros: g.at()}
	n := g.sender
	if int64(g.next) < g.burst {
		n = g.popularity.draw(g.random)
		g.step()
	} else if g.left--; g.left == 0 {
		g.burst += int64(g.client.Burst.Every)
		g.startBurst()
	}
	r.http = g.request(n)
	return r
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
