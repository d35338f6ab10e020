package e2e

import (
	"fmt"
	"net/http"
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
		Discovered: true, Quiet: true, Upstream: envoytest.NewUpstream(t, http.HandlerFunc(obedient)).Addr,
	})
	load := startLoad(t, 4, s.URL+"/leased")
	for n := range st.updates {
		began := time.Now()
		if n*st.streams/st.updates != (n+1)*st.streams/st.updates {
			defer hold(t, s.URL+"/stream", "x-stay: yes")()
		}
		s.Discover(updated(st.rules, n+1))
		if n == st.updates/4 {
			seen.settledKB = s.ResidentKB()
		}
		if n%10 == 0 {
			list, err := s.client.Do(ctx, "CLIENT", "LIST", "TYPE", "normal").Text()
			testenv.OK(t, err)
			seen.connections = max(seen.connections, strings.Count(list, "\n")-1) // without the test's own
		}
		time.Sleep(time.Until(began.Add(st.every)))
	}
	seen.finalKB = s.ResidentKB()
	seen.admitted = load.stop()[http.StatusOK]
	seen.worst = load.worst
	testenv.Wait(t, 3*patience, func() error {
		seen.charged = s.chargedInWindow(t)
		if seen.charged != seen.admitted {
			return fmt.Errorf("%d units are charged, %d were spent", seen.charged, seen.admitted)
		}
		return nil
	})
	return seen
}

// TestUpdatesCostNothing: a storm of updates loses no leased unit, and leaves no
// connection behind.
func TestUpdatesCostNothing(t *testing.T) {
	t.Parallel()
	seen := storm{rules: 40, updates: 30, every: 100 * time.Millisecond, streams: 5}.run(t)
	t.Logf("%+v", seen)
	// workers * (this and the last configuration, and those that streams keep)
	if most := 2 * (2 + 5); seen.connections > most {
		t.Errorf("%d connections to Redis, want %d at most", seen.connections, most)
	}
}
