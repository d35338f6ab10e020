package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// setup is one way to limit requests, or none: the shipped envoy.yaml with another limiter.
type setup struct {
	ID     string // in results and file names
	Title  string
	Status int    // that every answer has; 0 in the file: 200
	Path   string // of its requests, if it is not /

	Rule    string         // members of the JSON of a rule that tells identities by the header
	Plugin  []string       // in place of that rule, pieces of the plugin's configuration, without "redis"
	Wasm    string         // the filter's file, a path or a name in build/, if it is another one
	Redis   string         // how Sluice reaches it: "" directly, by a proxy or a relay, or none: it does not
	Filter  map[string]any // Envoy's own filter, in Sluice's place
	Service *service       // that the filter asks; nil: none

	// Only is "timed" where "make count" leaves it out, and "counted" where it differs by less than the
	// noise of a run, or would take a core of its own.
	Only string
}

// service configures github.com/envoyproxy/ratelimit.
type service struct {
	Limit      int  // requests an hour, and a day
	Daily      bool // both are asked about, at once
	Cache      bool // of the keys that are over their limit, in the service
	LooksFirst bool `yaml:"looks_first"` // a request that one limit rejects is not counted in the others, as with Sluice
}

// limits are the service's own configuration.
func (s *service) limits() string {
	return fmt.Sprintf("domain: bench\ndescriptors:\n"+
		"- {key: client, rate_limit: {unit: hour, requests_per_unit: %d}}\n"+
		"- {key: daily, rate_limit: {unit: day, requests_per_unit: %[1]d}}\n", s.Limit)
}

//go:embed setups.yaml
var setupsFile []byte

// Setups that the code and the pages compare.
const (
	unlimited  = "none"
	sluice     = "sluice"
	settled    = "sluice-settled"
	leased     = "sluice-leased"
	relayed    = "sluice-relay"
	pair       = "ratelimit"
	pairCached = "ratelimit-local-cache"
	before     = "sluice-before" // another build of the plugin, in which sluice is
)

// choose returns some setups, in the order of a run.
func choose(which func(*setup) bool) (all []*setup) {
	d := yaml.NewDecoder(bytes.NewReader(setupsFile))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		panic(fmt.Sprintf("setups.yaml: %v", err)) // it is part of the program
	}
	for _, s := range all {
		if s.Status == 0 {
			s.Status = 200
		}
	}
	return slices.DeleteFunc(all, func(s *setup) bool { return !which(s) })
}

// setups are those of a run.
func setups() []*setup { return choose(func(s *setup) bool { return s.Only != "counted" }) }

// beside are the setups that compare this build of the plugin with another file.
func beside(file string) []*setup {
	kept := choose(func(s *setup) bool { return slices.Contains([]string{unlimited, sluice, settled}, s.ID) })
	other := *kept[1]
	other.ID, other.Title, other.Wasm = before, "Sluice, Redis, before", file
	return append(kept, &other)
}

const (
	// identityHeader tells requests apart in every setup that counts in Redis. All requests of a run have
	// the same value: the hottest key there can be.
	identityHeader = "x-api-key"
	identity       = "bench"

	clusters    = "static_resources/clusters"
	httpFilters = envoyconf.ConnectionManager + "/http_filters"
	route       = envoyconf.ConnectionManager + "/route_config/virtual_hosts/all/routes/0/route"
)

// config is the configuration of a setup's Envoy. It has no access log.
func (s *setup) config(at place) (*envoyconf.Config, error) {
	c, err := shippedFor(at)
	if err != nil {
		return nil, err
	}
	c.SetUpstream(addr(at.upstream))
	c.SetRedis(addr(at.redis))
	c.Delete(envoyconf.ConnectionManager + "/access_log")
	plugin := strings.Join(s.Plugin, "\n")
	if s.Rule != "" { // with the headers that its peers send
		plugin = fmt.Sprintf(`"headers": ["x-ratelimit"], "rules": [{"name": "bench", "key": [{"header": %q}], %s}]`,
			identityHeader, s.Rule)
	}
	switch {
	case plugin == "":
		s.replaceSluice(c, at)
		return c, nil
	case s.Wasm == "empty.wasm":
		c.SetPlugin(plugin)
		c.Remove(clusters, "redis")
	default: // it counts apart from the other setups: its port tells their keys apart
		c.SetPlugin(fmt.Sprintf(`{"redis": {"cluster": "redis", "key_prefix": "bench-%d", "timeout": "%dms"}, %s}`,
			at.listener, at.timeout.Milliseconds(), plugin))
	}
	switch s.Redis {
	case "none":
		c.RemoveRedis()
	case "proxy":
		c.RouteByRedisProxy(false, addr(at.redis))
	case "relay":
		c.Set(envoyconf.RedisCluster, c.HTTP2Cluster("redis", addr(at.service)))
	}
	if filepath.IsAbs(s.Wasm) {
		c.SetWasm(s.Wasm)
	} else if s.Wasm != "" {
		c.SetWasm(filepath.Join(at.root, "build", s.Wasm))
	}
	return c, nil
}

// replaceSluice puts the setup's filter in the place of the plugin, in both its roles. It asks the service
// with the time-out that Sluice has for Redis.
func (s *setup) replaceSluice(c *envoyconf.Config, at place) {
	c.Remove(httpFilters, "sluice")
	c.Remove(clusters, "redis")
	if s.Filter != nil {
		rest, _ := c.Get(httpFilters).([]any)
		c.Set(httpFilters, append([]any{s.Filter}, rest...))
	}
	if s.Service == nil {
		return
	}
	c.Set(httpFilters+"/ratelimit/typed_config/timeout", fmt.Sprintf("%gs", at.timeout.Seconds()))
	descriptor := `{actions: [{request_headers: {header_name: ` + identityHeader + `, descriptor_key: %s}}]}`
	descriptors := fmt.Sprintf(descriptor, "client")
	if s.Service.Daily {
		descriptors += ", " + fmt.Sprintf(descriptor, "daily")
	}
	c.Set(route+"/rate_limits", c.Fragment("["+descriptors+"]"))
	c.Append(clusters, c.HTTP2Cluster("service", addr(at.service)))
}
