package e2e

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// outageTimeout is redis.timeout in most outages. The bound on latencies must tell
// a stuck request from one that waited that long on a machine under load.
const (
	outageTimeout = 100 * time.Millisecond
	stuck         = 10 * time.Second
)

// modes are the failure modes with the statuses that requests may have under
// outages of which no limit is reached.
var modes = map[string][]int{
	"allow": {http.StatusOK},
	"deny":  {http.StatusOK, http.StatusServiceUnavailable},
	"local": {http.StatusOK},
}

// outage is an Envoy with a listener for each failure mode, whose Redis, or the
// way to it, is to fail under load.
type outage struct {
	*setting

	t       testing.TB
	urls    map[string]string // by mode
	loads   map[string]*load
	wrong   atomic.Pointer[string] // an answer that was another request's
	timeout time.Duration          // redis.timeout
	reloads int
}

// plugins are those of all listeners: several rules, told apart by their limits, which are also their paths, and a
// tight one. They are others after each reload.
func (o *outage) plugins() (plugin string, beside map[string]string) {
	var rules string
	for limit := 900_001; limit <= 900_004; limit++ {
		rules += fmt.Sprintf(`{"name": "r%d", "match": {"path": "/%[1]d"}, "key": [{"query": "u"}], "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": %[1]d, %s}]},`, limit, long)
	}
	of := map[string]string{}
	for mode := range modes {
		of[mode] = fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "%v"}, "failure": {"mode": %q, "max_pending": %d,
			"breaker": {"failures": 5, "min_open": "50ms", "max_open": "500ms"}}, "rules": [%s
			{"name": "tight", "match": {"path": "/tight"}, "key": [{"query": "u"}], "limits": [
				{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, %s}]}]}`,
			o.timeout, mode, 4096+o.reloads, rules, long)
	}
	return of["allow"], map[string]string{"deny": of["deny"], "local": of["local"]}
}

// launchOutage brings everything up, under load, and does not wait for Redis.
func launchOutage(t testing.TB, timeout time.Duration, opts envoytest.Options) *outage {
	t.Helper()
	o := &outage{t: t, timeout: timeout, loads: map[string]*load{}}
	plugin, beside := o.plugins()
	opts.Beside, opts.Dynamic = beside, true
	o.setting = start(t, plugin, opts)
	o.urls = maps.Clone(o.Beside)
	o.urls["allow"] = o.URL
	for mode, url := range o.urls {
		var sent [2]int
		o.loads[mode] = startVarying(t, len(sent), func(client int, last reply) string {
			limit := fmt.Sprint(900_001 + sent[client]%4)
			if got := last.header.Get("x-ratelimit-limit"); got != "" && got != limit {
				text := fmt.Sprintf("a request to /%s was answered with a limit of %s", limit, got)
				o.wrong.Store(&text)
			}
			sent[client]++
			return fmt.Sprintf("%s/%d?u=%d", url, 900_001+sent[client]%4, client)
		})
	}
	return o
}

// await returns when each mode's load has had some more answers.
func (o *outage) await(n int) {
	o.t.Helper()
	for mode, l := range o.loads {
		l.await(n, modes[mode]...)
	}
}

// requests is how many have been answered.
func (o *outage) requests() (n int) {
	for _, l := range o.loads {
		n += l.count()
	}
	return n
}

// expectModes wants that Redis decides nothing, and that each mode does what its
// name says.
func (o *outage) expectModes() {
	o.t.Helper()
	for mode, want := range map[string]string{ // statuses, filter states and details in the access log
		"allow": strings.Repeat("200 failed:allow via_upstream\n", 5),
		"deny":  strings.Repeat("503 failed:deny failed:deny\n", 5),
		"local": strings.Repeat("200 local:allowed via_upstream\n", 3) +
			strings.Repeat("429 local:limited:tight local:limited:tight\n", 2),
	} {
		path := "/tight?u=" + rand.Text()
		for range 5 {
			limit := get(o.t, o.urls[mode]+path).header.Get("x-ratelimit-limit")
			testenv.Same(o.t, mode+": whether there is a limit", limit != "", mode == "local")
		}
		got := ""
		for _, entry := range o.Logged(path, 5) {
			got += fmt.Sprintln(entry.Status, entry.State, entry.Details)
		}
		testenv.Same(o.t, "answers in mode "+mode, got, want)
	}
}

// expectDecided returns when Redis decides the requests of each mode.
func (o *outage) expectDecided() {
	o.t.Helper()
	for mode, url := range o.urls {
		testenv.Wait(o.t, patience, func() error {
			user := rand.Text()
			get(o.t, url+"/tight?u="+user)
			n, err := o.client.Exists(ctx, "rl:{tight|"+user+"}:fixed_window:366d:first").Result()
			if err == nil && n == 0 {
				err = fmt.Errorf("%s: Redis does not decide yet", mode)
			}
			return err
		})
	}
}

// reload replaces all listeners by ones with changed configurations.
func (o *outage) reload() {
	o.t.Helper()
	o.reloads++
	if !o.Reload(o.plugins()) {
		o.t.Error("the reload was refused")
	}
}

// finish ends the loads and judges: every request was answered as its mode may,
// none was stuck, none got another's answer, each was counted once, and the log has
// not a line for each.
func (o *outage) finish() {
	o.t.Helper()
	o.await(20)
	for _, l := range o.loads {
		l.stop()
	}
	awaitSettled(o.t, o.setting, o.requests()) // whatever failed and was reloaded
	for mode, l := range o.loads {
		if len(l.errors) > 0 || l.count() > l.count(modes[mode]...) {
			o.t.Errorf("%s: %v; want status %v only", mode, l, modes[mode])
		}
		if l.worst > stuck {
			o.t.Errorf("%s: a request took %v, with a timeout of %v", mode, l.worst, o.timeout)
		}
	}
	if text := o.wrong.Load(); text != nil {
		o.t.Error(*text)
	}
	lines := strings.Count(o.Log(), "redis does not decide")
	testenv.Within(o.t, "the number of log lines that Redis does not decide", lines, 0, o.requests()/20)
}
