package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/cmd/sluice/envoyfile"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// envoy is the proxy that is looked at, by its admin interface
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/operations/admin).
type envoy struct {
	*Report
	url     string
	timeout time.Duration
	plugin  []byte   // the configuration that it should run
	redis   []string // the address that is to be tried; nil: that of its cluster

	way       envoyfile.Way // to Redis, if it is found
	found     bool
	endpoints []string // host:port, of Redis or of relays
	asks      bool     // its workers ask Redis now
}

// maxAnswer bounds what is read of an answer, in bytes: a dump may be large.
const maxAnswer = 256 << 20

// get asks the admin interface.
func (e *envoy) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(e.url, "/")+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", path, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxAnswer))
}

var envoyVersion = regexp.MustCompile(`/((\d+)\.(\d+)\.\d+)`)

// oldest is the oldest minor version of Envoy 1 that Sluice is tested with.
const oldest = 36

// look tries all that the configuration needs of Envoy, and finds how it reaches Redis.
func (e *envoy) look(ctx context.Context) {
	dump, err := e.get(ctx, "/config_dump")
	var info []byte
	if err == nil {
		info, err = e.get(ctx, "/server_info")
	}
	if err != nil {
		e.Add("envoy", Fail, "want the address of Envoy's admin interface, such as http://127.0.0.1:9901", "%v", err)
		return
	}
	version := gjson.GetBytes(info, "version").Str
	if m := envoyVersion.FindStringSubmatch(version); m == nil {
		e.Add("envoy", Warn, "want 1.36 or later", "its version is not known: %q", version)
	} else {
		major, _ := strconv.Atoi(m[2])
		minor, _ := strconv.Atoi(m[3])
		if major < 1 || major == 1 && minor < oldest {
			e.Add("envoy", Fail, "use 1.36 or later", "Envoy %s", m[1])
		} else {
			e.Add("envoy", Pass, "", "Envoy %s", m[1])
		}
	}
	if bytes.Contains(dump, []byte(`"envoy.wasm.runtime.v8"`)) {
		e.Add("v8", Pass, "", "this Envoy has the V8 Wasm runtime")
	} else {
		e.Add("v8", Fail, "use an Envoy with V8, such as the images of envoyproxy/envoy",
			"this Envoy does not name envoy.wasm.runtime.v8 among its extensions")
	}
	found, _, err := find.Configurations("config_dump.json", dump)
	if err != nil {
		e.Add("configuration", Fail, "report it", "its /config_dump does not parse: %v", err)
		return
	}
	if e.limiters(found); e.found {
		e.follow(ctx)
	}
	e.metrics(ctx)
}

// limiters looks at what Envoy runs of the plugin, and finds how the first one reaches Redis.
func (e *envoy) limiters(all []find.Found) {
	configs := map[*find.Found]*config.Config{}
	var order []*find.Found
	for i := range all {
		f := &all[i]
		if f.Bridge {
			continue
		}
		if cfg, err := input.Load(f.JSON); err != nil {
			e.Add("configuration", Fail, "sluice validate has the mistakes", "%s has mistakes: Envoy does not run it", f.In)
		} else {
			configs[f], order = cfg, append(order, f)
		}
	}
	if len(order) == 0 {
		e.Add("configuration", Fail, "add the filter: docs/envoy.md", "Envoy has no configuration of the limiter")
		return
	}
	same, place, seen := false, []string(nil), map[envoyfile.Finding]bool{}
	for _, f := range order {
		var runs, wanted any // but for the order of fields
		same = same || json.Unmarshal(f.JSON, &runs) == nil && json.Unmarshal(e.plugin, &wanted) == nil &&
			reflect.DeepEqual(runs, wanted)
		if r := configs[f].Redis; r != nil && !e.found {
			e.way, e.found = envoyfile.WayTo(f, r.Cluster), true
		}
		if place == nil {
			place = envoyfile.Chain(f)
		}
		for _, finding := range envoyfile.Findings(f, configs[f]) {
			finding.Line = 0 // of the dump
			if seen[finding] {
				continue
			}
			seen[finding] = true
			problem, advice := split(finding.Problem)
			e.Add(finding.Subject, map[bool]Status{true: Fail, false: Warn}[finding.Error], advice, "%s", problem)
		}
	}
	if same {
		e.Add("configuration", Pass, "", "Envoy runs this configuration")
	} else {
		e.Add("configuration", Warn, "reload Envoy, or give -c what it runs", "Envoy runs another configuration than -c has")
	}
	if place == nil {
		e.Add("place", Warn, "look at the order of filters: after those that verify, before the router",
			"the limiter is sent to Envoy by itself, so its place is not seen")
	} else {
		e.Add("place", Pass, "", "filters: %s", strings.Join(place, ", "))
	}
	e.found = e.found && !e.wrong(envoyfile.Cluster)
	for _, c := range []struct{ name, found string }{
		{envoyfile.Cluster, "the cluster that leads to Redis is there"},
		{envoyfile.Bridge, "it has the bridge, or leads to a relay"},
		{envoyfile.FailurePolicy, "a worker whose VM died gets a new one"},
		{envoyfile.Metadata, "what rules read of other filters is written before"},
	} {
		if !e.wrong(c.name) && !(c.name == envoyfile.Bridge && e.wrong(envoyfile.Cluster)) {
			e.Add(c.name, Pass, "", "%s", c.found)
		}
	}
}

// wrong reports whether something was found about a subject.
func (r *Report) wrong(subject string) bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == subject && c.Status != Pass })
}

// split takes the advice, in parentheses, off a finding's text.
func split(problem string) (found, advice string) {
	i := strings.LastIndex(problem, " (want ")
	if i < 0 || !strings.HasSuffix(problem, ")") {
		return problem, ""
	}
	return problem[:i], strings.TrimSuffix(problem[i+2:], ")")
}

// follow looks at the endpoints that Envoy's cluster leads to.
func (e *envoy) follow(ctx context.Context) {
	answer, _ := e.get(ctx, "/clusters?format=json") // without one there is no endpoint
	var own []string                                 // besides, by their names
	counts := map[string]int64{}
	for _, c := range gjson.GetBytes(answer, "cluster_statuses").Array() {
		if c.Get("name").Str != e.way.Cluster {
			continue
		}
		for _, h := range c.Get("host_statuses").Array() {
			socket := h.Get("address.socket_address")
			port := strconv.FormatInt(socket.Get("port_value").Int(), 10)
			e.endpoints = append(e.endpoints, net.JoinHostPort(socket.Get("address").Str, port))
			own = append(own, net.JoinHostPort(h.Get("hostname").Str, port))
			for _, s := range h.Get("stats").Array() {
				counts[s.Get("name").Str] += s.Get("value").Int()
			}
		}
	}
	failed, tried := counts["cx_connect_fail"], counts["cx_total"]
	leads := fmt.Sprintf("the cluster %q leads to %s", e.way.Cluster, strings.Join(e.endpoints, ", "))
	switch {
	case len(e.endpoints) == 0:
		e.Add("endpoints", Fail, "look at the cluster's load_assignment, and at DNS or the control plane that fills it",
			"the cluster %q has no endpoint", e.way.Cluster)
	case tried > 0 && failed == tried:
		e.Add("endpoints", Fail, "correct the address in that cluster, or look whether anything listens there",
			"%s: none of %d connections came about", leads, tried)
	case e.way.Relay:
		e.Add("endpoints", Pass, "", "%s, a relay", leads)
	case e.redis != nil && !anyOf(ctx, e.redis, append(own, e.endpoints...)):
		e.Add("endpoints", Warn, "leave --redis out to try what Envoy asks, or correct the cluster",
			"%s, not to --redis, %s", leads, strings.Join(e.redis, ", "))
	default:
		e.Add("endpoints", Pass, "", "%s", leads)
	}
}

// anyOf reports whether any of these addresses is one of an Envoy's own.
func anyOf(ctx context.Context, addresses []string, own []string) bool {
	return slices.ContainsFunc(addresses, func(address string) bool {
		host, port, _ := net.SplitHostPort(address)
		resolved, _ := net.DefaultResolver.LookupHost(ctx, host) // what does not resolve is another
		return slices.ContainsFunc(append(resolved, host), func(h string) bool {
			return slices.Contains(own, net.JoinHostPort(h, port))
		})
	})
}

// metric is one line of /stats about the plugin.
var metric = regexp.MustCompile(`(?m)^wasmcustom\.sluice\.(.+): (\d+)$`)

// metrics looks for the plugin's metrics, and at what they say of its workers.
func (e *envoy) metrics(ctx context.Context) {
	text, err := e.get(ctx, "/stats?filter=^wasmcustom%5C.sluice%5C.")
	values, causes := map[string]int64{}, []string(nil)
	for _, m := range metric.FindAllStringSubmatch(string(text), -1) {
		values[m[1]], _ = strconv.ParseInt(m[2], 10, 64) // digits
	}
	if err != nil || len(values) == 0 {
		e.Add("metrics", Warn, "let the stats_matcher of its stats_config pass the prefix wasmcustom.sluice: docs/envoy.md, "+
			"section 4", "this Envoy has no metric of Sluice: no alert fires, and whether its workers ask Redis is not known")
		return
	}
	e.Add("metrics", Pass, "", "Envoy has %d metrics of Sluice", len(values))
	if !e.wrong(envoyfile.StatsTags) {
		e.Add(envoyfile.StatsTags, Pass, "", "they have their labels")
	}
	if !e.found {
		return
	}
	failed := int64(0)
	for name, n := range values {
		cause, ok := strings.CutPrefix(name, "redis.cause.")
		if cause = strings.TrimSuffix(cause, ".errors_total"); ok && n > 0 && cause != redis.BreakerOpen.String() {
			failed, causes = failed+n, append(causes, cause)
		}
	}
	slices.Sort(causes)
	state := func(name string) int64 { return values["redis.state."+name+".breaker_workers"] }
	asking, not := state("closed"), state("open")+state("half_open")
	const look = "correct what \"endpoints\" and Envoy's log name; docs/operations.md, \"When Redis fails\""
	switch why := strings.Join(causes, ", "); {
	case not > 0:
		e.Add("workers", Fail, look, "%d of %d workers do not ask Redis: %s; the failure mode decides", not, asking+not, why)
	case asking == 0:
		e.Add("workers", Warn, "send it a request", "no worker has asked Redis yet")
	case failed > 0 && strings.Contains(string(text), "round_trip_microseconds: No recorded values"):
		e.Add("workers", Fail, look, "Redis has decided nothing for %d workers: %s; the failure mode decides", asking, why)
	case failed > values["redis.checks_total"]/100:
		e.asks = true
		e.Add("workers", Warn, look, "%d workers ask Redis; since Envoy began, %d checks were not decided: %s",
			asking, failed, why)
	default:
		e.asks = true
		e.Add("workers", Pass, "", "%d workers ask Redis", asking)
	}
}
