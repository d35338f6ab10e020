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

	"github.com/sluiceproxy/sluice/cmd/sluice/envoyfile"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// Envoy is the proxy that is looked at, by its admin interface
// (https://www.envoyproxy.io/docs/envoy/v1.40.0/operations/admin).
type Envoy struct {
	URL     string
	Timeout time.Duration
	Load    func([]byte) (*config.Config, error)
	Plugin  []byte   // the configuration that it should run
	Redis   []string // the address that is to be tried; nil: that of its cluster
}

// maxAnswer bounds what is read of an answer, in bytes: a dump may be large.
const maxAnswer = 256 << 20

// get asks the admin interface.
func (e *Envoy) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(e.URL, "/")+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", path, response.Status)
	}
	return body, err
}

// Look tries all that the configuration needs of Envoy, and says how it reaches Redis.
func (e *Envoy) Look(ctx context.Context, r *Report) *Way {
	dump, err := e.get(ctx, "/config_dump")
	var info []byte
	if err == nil {
		info, err = e.get(ctx, "/server_info")
	}
	if err != nil {
		r.Add("envoy", Fail, "want the address of Envoy's admin interface, such as http://127.0.0.1:9901", "%v", err)
		return nil
	}
	e.version(info, r)
	if bytes.Contains(dump, []byte(`"envoy.wasm.runtime.v8"`)) {
		r.Add("v8", Pass, "", "this Envoy has the V8 Wasm runtime")
	} else {
		r.Add("v8", Fail, "use an Envoy with V8, such as the images of envoyproxy/envoy",
			"this Envoy does not name envoy.wasm.runtime.v8 among its extensions")
	}
	found, _, err := find.Configurations("config_dump.json", dump)
	if err != nil {
		r.Add("configuration", Fail, "report it", "its /config_dump does not parse: %v", err)
		return nil
	}
	way := e.limiters(found, r)
	if way != nil {
		e.follow(ctx, way, r)
	}
	e.metrics(ctx, way, r)
	return way
}

var envoyVersion = regexp.MustCompile(`/(\d+)\.(\d+)\.(\d+)`)

// oldest is the oldest minor version of Envoy 1 that Sluice is tested with.
const oldest = 36

// version reads /server_info.
func (e *Envoy) version(info []byte, r *Report) {
	var answer struct{ Version string }
	_ = json.Unmarshal(info, &answer) // an unknown version is reported
	m := envoyVersion.FindStringSubmatch(answer.Version)
	if m == nil {
		r.Add("envoy", Warn, "want 1.36 or later", "its version is not known: %q", answer.Version)
		return
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 1 || major == 1 && minor < oldest {
		r.Add("envoy", Fail, "use 1.36 or later", "Envoy %s", m[0][1:])
		return
	}
	r.Add("envoy", Pass, "", "Envoy %s", m[0][1:])
}

// limiters looks at what Envoy runs of the plugin, and says how the first one reaches Redis.
func (e *Envoy) limiters(found []find.Found, r *Report) (way *Way) {
	limiters := map[*find.Found]*config.Config{}
	var order []*find.Found
	for i := range found {
		f := &found[i]
		if f.Bridge {
			continue
		}
		cfg, err := e.Load(f.JSON)
		switch {
		case err != nil:
			r.Add("configuration", Fail, "sluice validate has the mistakes", "%s has mistakes: Envoy does not run it", f.In)
		default:
			limiters[f], order = cfg, append(order, f)
		}
	}
	if len(order) == 0 {
		r.Add("configuration", Fail, "add the filter: docs/envoy.md", "Envoy has no configuration of the limiter")
		return nil
	}
	same, seen := false, map[envoyfile.Finding]bool{}
	place := []string(nil)
	for _, f := range order {
		var runs, wanted any // but for the order of fields
		same = same || json.Unmarshal(f.JSON, &runs) == nil && json.Unmarshal(e.Plugin, &wanted) == nil &&
			reflect.DeepEqual(runs, wanted)
		if redis := limiters[f].Redis; redis != nil && way == nil {
			way = &Way{Way: envoyfile.WayTo(f, redis.Cluster)}
		}
		if names := envoyfile.Chain(f); place == nil {
			place = names
		}
		for _, finding := range envoyfile.Findings(f, limiters[f]) {
			finding.Line = 0 // of the dump
			if seen[finding] {
				continue
			}
			seen[finding] = true
			problem, advice := split(finding.Problem)
			r.Add(finding.Subject, map[bool]Status{true: Fail, false: Warn}[finding.Error], advice, "%s", problem)
		}
	}
	if e.conclude(r, same, place); r.wrong(envoyfile.Cluster) {
		return nil
	}
	return way
}

// conclude adds what was found to be right.
func (e *Envoy) conclude(r *Report, same bool, place []string) {
	if same {
		r.Add("configuration", Pass, "", "Envoy runs this configuration")
	} else {
		r.Add("configuration", Warn, "reload Envoy, or give -c what it runs", "Envoy runs another configuration than -c has")
	}
	if place == nil {
		r.Add("place", Warn, "look at the order of filters: after those that verify, before the router",
			"the limiter is sent to Envoy by itself, so its place is not seen")
	} else {
		r.Add("place", Pass, "", "filters: %s", strings.Join(place, ", "))
	}
	for _, c := range []struct{ name, found string }{
		{envoyfile.Cluster, "the cluster that leads to Redis is there"},
		{envoyfile.Bridge, "it has the bridge, or leads to a relay"},
		{envoyfile.FailurePolicy, "a worker whose VM died gets a new one"},
		{envoyfile.Metadata, "what rules read of other filters is written before"},
	} {
		if !r.wrong(c.name) && !(c.name == envoyfile.Bridge && r.wrong(envoyfile.Cluster)) {
			r.Add(c.name, Pass, "", "%s", c.found)
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

// Way is how an Envoy reaches Redis.
type Way struct {
	envoyfile.Way

	Endpoints []string // host:port, of Redis or of relays
	Asks      bool     // its workers ask Redis now
}

// endpoint is one of a cluster, as /clusters has it.
type endpoint struct {
	Address struct {
		Socket struct {
			Address string
			Port    int `json:"port_value"`
		} `json:"socket_address"`
	}
	Hostname string
	Stats    []struct {
		Name, Value string
	}
}

// count is one of an endpoint's statistics.
func (e *endpoint) count(name string) (n int64) {
	for _, s := range e.Stats {
		if s.Name == name {
			n, _ = strconv.ParseInt(s.Value, 10, 64) // absent: 0
		}
	}
	return n
}

func (e *endpoint) at(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(e.Address.Socket.Port))
}

// endpoints are those of a cluster now.
func (e *Envoy) endpoints(ctx context.Context, cluster string) ([]endpoint, error) {
	text, err := e.get(ctx, "/clusters?format=json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Clusters []struct {
			Name  string
			Hosts []endpoint `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	err = json.Unmarshal(text, &answer)
	for _, c := range answer.Clusters {
		if c.Name == cluster {
			return c.Hosts, err
		}
	}
	return nil, err
}

// follow looks at the endpoints that Envoy's cluster leads to.
func (e *Envoy) follow(ctx context.Context, way *Way, r *Report) {
	hosts, err := e.endpoints(ctx, way.Cluster)
	if err != nil || len(hosts) == 0 {
		r.Add("endpoints", Fail, "look at the cluster's load_assignment, and at DNS or the control plane that fills it",
			"the cluster %q has no endpoint", way.Cluster)
		return
	}
	failed, tried := int64(0), int64(0)
	own := map[string]bool{}
	for i := range hosts {
		h := &hosts[i]
		failed, tried = failed+h.count("cx_connect_fail"), tried+h.count("cx_total")
		way.Endpoints = append(way.Endpoints, h.at(h.Address.Socket.Address))
		own[h.at(h.Address.Socket.Address)], own[h.at(h.Hostname)] = true, true
	}
	leads := fmt.Sprintf("the cluster %q leads to %s", way.Cluster, strings.Join(way.Endpoints, ", "))
	switch {
	case tried > 0 && failed == tried:
		r.Add("endpoints", Fail, "correct the address in that cluster, or look whether anything listens there",
			"%s: none of %d connections came about", leads, tried)
	case way.Relay:
		r.Add("endpoints", Pass, "", "%s, a relay", leads)
	case e.Redis != nil && !anyOf(ctx, e.Redis, own):
		r.Add("endpoints", Warn, "leave --redis out to try what Envoy asks, or correct the cluster",
			"%s, not to --redis, %s", leads, strings.Join(e.Redis, ", "))
	default:
		r.Add("endpoints", Pass, "", "%s", leads)
	}
}

// anyOf reports whether any of these addresses is one of an Envoy's own.
func anyOf(ctx context.Context, addresses []string, own map[string]bool) bool {
	return slices.ContainsFunc(addresses, func(address string) bool {
		host, port, _ := net.SplitHostPort(address)
		resolved, _ := net.DefaultResolver.LookupHost(ctx, host) // what does not resolve is another
		return slices.ContainsFunc(append(resolved, host), func(h string) bool { return own[net.JoinHostPort(h, port)] })
	})
}

// compare looks whether the cluster of a limiter's file leads to one of some addresses.
func (r *Report) compare(ctx context.Context, found *find.Found, cluster string, addresses []string) {
	if found.Documents == nil { // it is the configuration alone
		return
	}
	way := envoyfile.WayTo(found, cluster)
	own := map[string]bool{}
	for _, address := range way.Addresses {
		own[address] = true
	}
	if way.Relay || len(own) == 0 || anyOf(ctx, addresses, own) {
		return
	}
	r.Add("endpoints", Warn, "correct the cluster, or give --envoy to see where it leads",
		"the file's cluster %q leads to %s, not to --redis, %s", way.Cluster, strings.Join(way.Addresses, ", "),
		strings.Join(addresses, ", "))
}

// metric is one line of /stats about the plugin.
var metric = regexp.MustCompile(`(?m)^wasmcustom\.sluice\.(.+): (\d+)$`)

// metrics looks for the plugin's metrics, and at what they say of its workers.
func (e *Envoy) metrics(ctx context.Context, way *Way, r *Report) {
	text, err := e.get(ctx, "/stats?filter=^wasmcustom%5C.sluice%5C.")
	values, causes := map[string]int64{}, []string(nil)
	for _, m := range metric.FindAllStringSubmatch(string(text), -1) {
		values[m[1]], _ = strconv.ParseInt(m[2], 10, 64) // digits
	}
	if err != nil || len(values) == 0 {
		r.Add("metrics", Warn, "let the stats_matcher of its stats_config pass the prefix wasmcustom.sluice: docs/envoy.md, "+
			"section 4", "this Envoy has no metric of Sluice: no alert fires, and whether its workers ask Redis is not known")
		return
	}
	r.Add("metrics", Pass, "", "Envoy has %d metrics of Sluice", len(values))
	if !r.wrong(envoyfile.StatsTags) {
		r.Add(envoyfile.StatsTags, Pass, "", "they have their labels")
	}
	if way == nil {
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
		r.Add("workers", Fail, look, "%d of %d workers do not ask Redis: %s; the failure mode decides", not, asking+not, why)
	case asking == 0:
		r.Add("workers", Warn, "send it a request", "no worker has asked Redis yet")
	case failed > 0 && strings.Contains(string(text), "round_trip_microseconds: No recorded values"):
		r.Add("workers", Fail, look, "Redis has decided nothing for %d workers: %s; the failure mode decides", asking, why)
	case failed > values["redis.checks_total"]/100:
		way.Asks = true
		r.Add("workers", Warn, look, "%d workers ask Redis; since Envoy began, %d checks were not decided: %s",
			asking, failed, why)
	default:
		way.Asks = true
		r.Add("workers", Pass, "", "%d workers ask Redis", asking)
	}
}
