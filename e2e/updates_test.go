package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// updated is a configuration of many rules, one of which leases. A generation has a
// limit of its own in a rule that no request meets.
func updated(rules, generation int) string {
	var text strings.Builder
	for i := range rules {
		fmt.Fprintf(&text, `{"name": "rule-%d", "match": {"path": "/%d"}, "key": [{"header": "x-user"}], "limits": [
			{"algorithm": "gcra", "limit": %d, "window": "1h"}]}, `, i, i, generation%1000+1)
	}
	return `{` + patient + `"rules": [` + text.String() + `{"name": "leased", "match": {"path": "/leased"}, "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000, "window": "1d",
			"lease": {"units": 100, "ttl": "200ms"}}]}]}`
}

// openStream is an upstream that answers /stream with a response that never ends.
func openStream(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stream" {
		return
	}
	_, _ = w.Write([]byte("begins\n"))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// stream opens a stream that lasts until the context ends.
func stream(t *testing.T, ctx context.Context, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/stream", nil)
	testenv.OK(t, err)
	resp, err := (&http.Transport{}).RoundTrip(req)
	testenv.OK(t, err)
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
}

// storm is updates that come one after the other while requests spend leased units and
// streams keep the configurations alive that they began under.
type storm struct {
	rules   int
	updates int
	every   time.Duration
	streams int // opened along the way
}

// weather is the result of a storm.
type weather struct {
	settledKB, finalKB int
	connections        int // to Redis, at most
	admitted           int
	charged            int // units that Redis holds, after all have had time to return
	worst              time.Duration
}

func (st storm) run(t *testing.T) (seen weather) {
	t.Helper()
	s := start(t, updated(st.rules, 0), envoytest.Options{
		Discovered: true, Quiet: true, Upstream: envoytest.NewUpstream(t, http.HandlerFunc(openStream)).Addr,
	})
	streams, end := context.WithCancel(ctx)
	defer end()
	load := startLoad(t, 4, s.URL+"/leased")
	for n := range st.updates {
		began := time.Now()
		if n*st.streams/st.updates != (n+1)*st.streams/st.updates {
			stream(t, streams, s.URL)
		}
		s.Discover(updated(st.rules, n+1))
		if n == st.updates/4 {
			seen.settledKB = s.ResidentKB()
		}
		if n%10 == 0 {
			seen.connections = max(seen.connections, s.connections(t))
		}
		time.Sleep(time.Until(began.Add(st.every)))
	}
	seen.finalKB = s.ResidentKB()
	seen.admitted = load.stop()[http.StatusOK]
	seen.worst = load.worst
	testenv.Wait(t, 3*patience, func() error {
		seen.charged = s.charged(t)
		if seen.charged != seen.admitted {
			return fmt.Errorf("%d units are charged, %d were spent", seen.charged, seen.admitted)
		}
		return nil
	})
	return seen
}

// connections is how many connections Envoy has to Redis.
func (s *setting) connections(t *testing.T) int {
	t.Helper()
	list, err := s.client.Do(ctx, "CLIENT", "LIST", "TYPE", "normal").Text()
	testenv.OK(t, err)
	return strings.Count(list, "\n") - 1 // the test's own
}

// charged is how much of the leased limit is used, says Redis.
func (s *setting) charged(t *testing.T) int {
	t.Helper()
	value, err := s.client.Get(ctx, "rl:{leased|}:fixed_window:1d:first").Bytes()
	if err != nil || len(value) != 12 {
		t.Fatalf("the leased limit's key holds %q: %v", value, err)
	}
	return int(value[8]) | int(value[9])<<8 | int(value[10])<<16 | int(value[11])<<24
}

func (w weather) String() string {
	return "memory " + strconv.Itoa(w.settledKB) + " KB after a quarter, " + strconv.Itoa(w.finalKB) +
		" KB at the end; at most " +
		strconv.Itoa(w.connections) + " connections; " + strconv.Itoa(w.admitted) + " admitted, " + strconv.Itoa(w.charged) +
		" charged; the slowest request took " + w.worst.String()
}

// TestUpdatesCostNothing: a storm of updates loses no leased unit, and leaves no
// connection behind.
func TestUpdatesCostNothing(t *testing.T) {
	t.Parallel()
	seen := storm{rules: 40, updates: 60, every: 100 * time.Millisecond, streams: 5}.run(t)
	t.Log(seen)
	// workers * (this and the last configuration, and those that streams keep)
	if most := 2 * (2 + 5); seen.connections > most {
		t.Errorf("%d connections to Redis, want %d at most", seen.connections, most)
	}
}
