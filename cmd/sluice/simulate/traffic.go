package simulate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

// Traffic describes requests: what groups of clients send for a while.
type Traffic struct {
	Duration Duration `yaml:"duration"`
	Clients  []Client `yaml:"clients"`
}

// Client is a group of clients that are alike.
type Client struct {
	Name string `yaml:"name"`
	// Rate is how many requests a second all of them send together.
	Rate float64 `yaml:"rate"`
	// Arrivals are "random" (a Poisson process, the default) or "even".
	Arrivals string `yaml:"arrivals"`
	// Identities is how many clients there are; 0 stands for 1. Client n of them
	// sends with the probability of 1/n^Zipf.
	Identities int     `yaml:"identities"`
	Zipf       float64 `yaml:"zipf"`
	// From and To are when they send; To 0 stands for the end.
	From Duration `yaml:"from"`
	To   Duration `yaml:"to"`
	// Burst is sent in addition to the rest.
	Burst Burst `yaml:"burst"`
	// Retry is their reaction to a rejection: "never" (the default),
	// "after" waits for Retry-After, "at once" does not.
	Retry    string `yaml:"retry"`
	Attempts int    `yaml:"attempts"` // of one request; 0 stands for 3
	// The request, in which {n} stands for the number of the client, from 1.
	Method   string            `yaml:"method"`
	URL      string            `yaml:"url"`
	Headers  map[string]string `yaml:"headers"`
	ClientIP string            `yaml:"client_ip"` // an address, or a network whose n-th address it is
	Metadata map[string]any    `yaml:"metadata"`
	Property map[string]string `yaml:"properties"`
}

// Burst is requests of one client at one instant, from time to time.
type Burst struct {
	Size  int      `yaml:"size"`
	Every Duration `yaml:"every"`
}

// Duration is written such as "1m30s".
type Duration int64 // us

// UnmarshalYAML reads a duration.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := duration.Parse(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*d = Duration(parsed.Microseconds())
	return nil
}

// ParseTraffic reads a description, as YAML or JSON.
func ParseTraffic(text []byte) (*Traffic, error) {
	t := new(Traffic)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(t); err != nil {
		return nil, fmt.Errorf("not a description of traffic: %w", err)
	}
	return t, t.Check()
}

// Check fills in defaults and reports the first mistake.
func (t *Traffic) Check() error {
	if t.Duration <= 0 {
		return errors.New(`the traffic has no "duration" (want one such as "1m")`)
	}
	if len(t.Clients) == 0 {
		return errors.New(`the traffic has no "clients"`)
	}
	for i := range t.Clients {
		if err := t.Clients[i].check(); err != nil {
			return fmt.Errorf("clients[%d]: %w", i, err)
		}
	}
	return nil
}

// CheckSize reports whether these are more requests than most, each as often as it may be sent.
func (t *Traffic) CheckSize(most int64) error {
	requests := 0.0
	for i := range t.Clients { // about how many a group sends, if each is rejected as often as it can be
		c, end := &t.Clients[i], t.Duration
		if c.To > 0 {
			end = min(end, c.To)
		}
		length := float64(max(0, end-c.From))
		count := c.Rate * length / 1e6
		if c.Burst.Size > 0 {
			count += float64(c.Burst.Size) * (1 + length/float64(c.Burst.Every))
		}
		if c.Retry == "after" || c.Retry == "at once" {
			count *= float64(c.Attempts)
		}
		requests += count
	}
	if requests > float64(most) {
		return fmt.Errorf("these are %.3g requests with those that are sent again "+
			"(want %d at most: a shorter duration, a lower rate, fewer attempts, or a higher --max-requests)", requests, most)
	}
	return nil
}

// MaxRequests is about a minute of computing: 19 s with 50 identities, 88 s with 5 million (CPU time
// of one core, from 500,000 requests of each).
const MaxRequests = 5_000_000

// What is simulated at most.
const (
	maxIdentities = 10_000_000
	maxZipf       = 100
	maxAttempts   = 1000
)

func (c *Client) check() (err error) {
	c.Identities, c.Attempts, c.Method = cmp.Or(c.Identities, 1), cmp.Or(c.Attempts, 3), cmp.Or(c.Method, "GET")
	want := func(holds bool, format string, args ...any) {
		if err == nil && !holds {
			err = fmt.Errorf(format, args...)
		}
	}
	want(c.Rate != 0 || c.Burst.Size != 0, `"rate" is missing (want requests a second, above 0)`)
	want(c.Rate >= 0 && c.Rate <= 1e9, // not so of NaN
		"rate: %v is not requests a second (want a number above 0, 1e9 at most)", c.Rate)
	want(slices.Contains([]string{"", "random", "even"}, c.Arrivals),
		"arrivals: %q is unknown (want \"random\" or \"even\")", c.Arrivals)
	want(c.Identities >= 0 && c.Identities <= maxIdentities,
		"identities: %d are too many or too few (want 1 to %d)", c.Identities, maxIdentities)
	want(c.Zipf >= 0 && c.Zipf <= maxZipf, "zipf: %v is not an exponent (want 0 to %d)", c.Zipf, maxZipf)
	want(c.Attempts >= 0 && c.Attempts <= maxAttempts, "attempts: %d (want 1 to %d)", c.Attempts, maxAttempts)
	want(slices.Contains([]string{"", "never", "after", "at once"}, c.Retry),
		"retry: %q is unknown (want \"never\", \"after\" or \"at once\")", c.Retry)
	want(c.Burst.Size == 0 || c.Burst.Size > 0 && c.Burst.Every > 0, `burst: want "size" above 0 and "every"`)
	want(c.URL != "", `"url" is missing (want one such as "https://api.example.com/items")`)
	if err == nil {
		_, err = c.request(1)
	}
	return err
}

// request is the request of client n.
func (c *Client) request(n int) (*explain.Request, error) {
	number := func(text string) string { return strings.ReplaceAll(text, "{n}", strconv.Itoa(n)) }
	req, err := explain.NewRequest(c.Method, number(c.URL))
	if err != nil {
		return nil, err
	}
	for name, value := range c.Headers {
		err = cmp.Or(err, req.AddHeader(name+": "+number(value)))
	}
	for path, value := range c.Property {
		err = cmp.Or(err, req.SetProperty(path+"="+number(value)))
	}
	if c.ClientIP != "" {
		ip, wrong := nthAddress(number(c.ClientIP), n)
		err = cmp.Or(err, wrong, req.SetClientIP(ip))
	}
	metadata, wrong := json.Marshal(c.Metadata)
	return req, cmp.Or(err, wrong, req.SetMetadata(number(string(metadata))))
}

// nthAddress is the n-th address of a network, or the address itself.
func nthAddress(text string, n int) (string, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return text, nil // an address, or what SetClientIP complains about
	}
	bytes := prefix.Masked().Addr().AsSlice()
	sum := new(big.Int).Add(new(big.Int).SetBytes(bytes), big.NewInt(int64(n)))
	addr, ok := netip.AddrFromSlice(sum.FillBytes(make([]byte, len(bytes))))
	if !ok || !prefix.Contains(addr) {
		return "", fmt.Errorf("client_ip: %s has no %d-th address", text, n)
	}
	return addr.String(), nil
}

// generator brings the requests of a description.
type generator struct {
	traffic *Traffic
	groups  []*group
}

// group is one group of clients and its next requests.
type group struct {
	*Client
	index    int
	random   *rand.Rand
	sums     []float64                // of the clients' weights, by Zipf's law; nil: all alike
	requests map[int]*explain.Request // by the client's number
	end      int64
	next     float64 // us; of the steady traffic
	burst    int64   // us; of the next burst
	left     int     // requests of the burst that is being sent
	sender   int     // of that burst
}

// Generate brings the requests of a description, which Check has accepted, the
// same ones for the same seed.
func Generate(t *Traffic, seed uint64) source {
	g := &generator{traffic: t}
	for i := range t.Clients {
		c := &t.Clients[i]
		one := &group{
			Client: c, index: i, random: rand.New(rand.NewPCG(seed, uint64(i)+100)), requests: map[int]*explain.Request{},
			end: int64(t.Duration), next: float64(c.From), burst: int64(c.From),
		}
		if c.To > 0 {
			one.end = min(one.end, int64(c.To))
		}
		for n, sum := 1, 0.0; c.Zipf != 0 && n <= c.Identities; n++ {
			sum += math.Pow(float64(n), -c.Zipf)
			one.sums = append(one.sums, sum)
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
	r := &request{client: first.Client, group: first.index, attempt: 1, atMicros: first.at()}
	n := first.sender
	if int64(first.next) < first.burst {
		n = first.draw()
		first.step()
	} else if first.left--; first.left == 0 {
		first.burst += int64(first.Burst.Every)
		first.startBurst()
	}
	r.http = first.made(n)
	return r
}

// at is when the group sends next.
func (g *group) at() int64 { return min(int64(g.next), g.burst) }

// draw chooses a client, from 1.
func (g *group) draw() int {
	if g.sums == nil {
		return 1 + g.random.IntN(g.Identities)
	}
	return 1 + sort.SearchFloat64s(g.sums, g.random.Float64()*g.sums[len(g.sums)-1])
}

// step goes to the next request of the steady traffic.
func (g *group) step() {
	switch {
	case g.Rate == 0:
		g.next = float64(g.end)
	case g.Arrivals == "even":
		g.next += 1e6 / g.Rate
	default:
		g.next += g.random.ExpFloat64() * 1e6 / g.Rate
	}
}

// startBurst chooses whose burst it is.
func (g *group) startBurst() { g.left, g.sender = g.Burst.Size, g.draw() }

// made is a client's request, made once.
func (g *group) made(n int) *explain.Request {
	if g.requests[n] == nil {
		made, err := g.request(n)
		if err != nil { // the first client's was fine: a network with too few addresses
			made = g.made(1)
		}
		g.requests[n] = made
	}
	return g.requests[n]
}
