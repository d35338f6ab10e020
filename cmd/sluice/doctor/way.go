package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/envoyfile"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

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
	isOwn := func(address string) bool {
		host, port, _ := net.SplitHostPort(address)
		resolved, _ := net.DefaultResolver.LookupHost(ctx, host) // what does not resolve is another
		return slices.ContainsFunc(append(resolved, host), func(h string) bool { return own[net.JoinHostPort(h, port)] })
	}
	switch {
	case tried > 0 && failed == tried:
		r.Add("endpoints", Fail, "correct the address in that cluster, or look whether anything listens there",
			"%s: none of %d connections came about", leads, tried)
	case way.Relay:
		r.Add("endpoints", Pass, "", "%s, a relay", leads)
	case e.Redis != nil && !slices.ContainsFunc(e.Redis, isOwn):
		r.Add("endpoints", Warn, "leave --redis out to try what Envoy asks, or correct the cluster",
			"%s, not to --redis, %s", leads, strings.Join(e.Redis, ", "))
	default:
		r.Add("endpoints", Pass, "", "%s", leads)
	}
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
