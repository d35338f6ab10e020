package envoyfile

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/internal/yamltree"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// odd are settings around a configuration that let requests by, or secrets out. Envoy and Istio load
// each without a word, and each may be meant.
var odd = []struct {
	subject string
	// at is the object that has the setting; nil if the file does not have it.
	at      func(l *Limiter) *yaml.Node
	problem string
}{
	{
		"filter", inChain((*Limiter).isOff), `the filter is disabled here, and no route turns it on, so that nobody is ` +
			`limited (want no "disabled: true")`,
	},
	{
		"filter", inChain((*Limiter).turnedOff), "typed_per_filter_config disables the filter here, so that nobody is " +
			"limited here (want it on narrower routes, or an exempt rule)",
	},
	{
		"listener", (*Limiter).bypass, "this connection manager has no Sluice, and leads to a cluster to which one with " +
			"Sluice leads: whoever comes this way is not limited (want the filter here, too)",
	},
	{
		"client_ip", inChain((*Limiter).manyHops), "with so many xff_num_trusted_hops clients choose their address by " +
			"that many in X-Forwarded-For (want the number of your own proxies in front)",
	},
	{
		"normalize_path", inChain((*Limiter).rawPath), "rules read the path, which Envoy's routes and the upstream have " +
			"here as the client wrote it: they may see another one (want normalize_path: true)",
	},
	{
		"admin", (*Limiter).openAdmin, "the admin interface listens on all addresses: whoever reaches it reads the " +
			"configuration, and ends Envoy (want 127.0.0.1)",
	},
	{
		"fail_strategy", inSpec("failStrategy", "FAIL_OPEN"), "with failStrategy: FAIL_OPEN nobody is limited while the " +
			"plugin cannot be fetched, and after its VM has died (want FAIL_RELOAD)",
	},
	{
		"match", clientSide, "the plugin looks at what its workload sends: a sidecar does not limit what comes in (want " +
			"mode: SERVER; a gateway needs no match)",
	},
	{
		"phase", (*Limiter).beforeClaims, "in the phase AUTHN the plugin comes before Istio verifies tokens, so that " +
			"the claims that rules read are not there (want no phase, or AUTHZ)",
	},
	{
		"type", inSpec("type", "NETWORK"), "a plugin of type NETWORK sees connections, no requests, so that nobody is " +
			"limited (want HTTP)",
	},
}

// inChain looks at each connection manager with the limiter, and at the limiter's filter there.
func inChain(at func(l *Limiter, chain, filter *yaml.Node) *yaml.Node) func(*Limiter) *yaml.Node {
	return func(l *Limiter) *yaml.Node {
		for _, chain := range l.around.chains {
			if filters, place := among(l.found, chain); place >= 0 {
				if n := at(l, chain, filters[place]); n != nil {
					return n
				}
			}
		}
		return nil
	}
}

func isDisabled(n *yaml.Node) bool { return yamltree.Text(n, "disabled") == "true" }

// isOff looks for a filter that is off, and that no route turns on.
func (l *Limiter) isOff(chain, filter *yaml.Node) *yaml.Node {
	routes := l.routes(chain)
	if !isDisabled(filter) || routes == nil {
		return nil
	}
	for _, n := range yamltree.Objects(routes) {
		own := yamltree.Get(n, "typed_per_filter_config", yamltree.Text(filter, "name"))
		if own != nil && !isDisabled(own) {
			return nil
		}
	}
	return filter
}

// turnedOff looks for a virtual host, or a route for all paths, where the filter is off and no other
// limiter is on.
func (l *Limiter) turnedOff(chain, filter *yaml.Node) *yaml.Node {
	name := yamltree.Text(filter, "name")
	isOther := func(n *yaml.Node) bool { return yamltree.Text(n, "name") != name && isLimiter(n) }
	others := slices.DeleteFunc(yamltree.List(chain, "http_filters"), func(n *yaml.Node) bool { return !isOther(n) })
	for _, n := range yamltree.Objects(l.routes(chain)) {
		settings, match := yamltree.Get(n, "typed_per_filter_config"), yamltree.Get(n, "match")
		isOn := func(other *yaml.Node) bool {
			own := yamltree.Get(settings, yamltree.Text(other, "name"))
			return own != nil && !isDisabled(own)
		}
		takesAll := match == nil || len(yamltree.Keys(match)) == 1 && yamltree.Text(match, "prefix") == "/"
		if !isDisabled(filter) && isDisabled(yamltree.Get(settings, name)) && takesAll && !slices.ContainsFunc(others, isOn) {
			return n
		}
	}
	return nil
}

// routes are the route configuration of a connection manager, its own or one of the file that it
// names; nil if it is elsewhere.
func (l *Limiter) routes(chain *yaml.Node) *yaml.Node {
	if own := yamltree.Get(chain, "route_config"); own != nil {
		return own
	}
	return l.around.named(yamltree.Text(chain, "rds", "route_config_name"), "virtual_hosts")
}

// isLimiter guesses whether a filter is a limiter, or one that a control plane sends.
func isLimiter(filter *yaml.Node) bool {
	wasm := find.WasmFilter(yamltree.Get(filter, "typed_config"))
	return wasm != nil && yamltree.Mentions(wasm, "rules") || yamltree.Get(filter, "config_discovery") != nil
}

// bypass looks for a connection manager without a limiter that leads where one with the limiter
// leads.
func (l *Limiter) bypass() *yaml.Node {
	var limited []string
	for _, chain := range l.around.chains {
		if _, place := among(l.found, chain); place >= 0 {
			limited = append(limited, l.clustersOf(chain)...)
		}
	}
	for _, chain := range l.around.chains {
		leads := slices.ContainsFunc(l.clustersOf(chain), func(name string) bool { return slices.Contains(limited, name) })
		if leads && !slices.ContainsFunc(yamltree.List(chain, "http_filters"), isLimiter) {
			return chain
		}
	}
	return nil
}

// clustersOf are the clusters to which the routes of a connection manager lead.
func (l *Limiter) clustersOf(chain *yaml.Node) (names []string) {
	for _, n := range yamltree.Objects(l.routes(chain)) {
		route := yamltree.Get(n, "route")
		names = append(names, yamltree.Text(route, "cluster"))
		for _, target := range yamltree.List(route, "weighted_clusters", "clusters") {
			names = append(names, yamltree.Text(target, "name"))
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// plausibleHops are more proxies than anybody has in front of Envoy.
const plausibleHops = 10

func (l *Limiter) manyHops(chain, _ *yaml.Node) *yaml.Node {
	hops, _ := strconv.Atoi(yamltree.Text(chain, "xff_num_trusted_hops"))
	if hops > plausibleHops && l.hasRule(readsAddress) {
		return chain
	}
	return nil
}

func (l *Limiter) rawPath(chain, _ *yaml.Node) *yaml.Node {
	if yamltree.Text(chain, "normalize_path") != "true" && l.hasRule(readsPath) {
		return chain
	}
	return nil
}

// hasRule reports whether a rule that is not off is such a one.
func (l *Limiter) hasRule(is func(*config.Rule) bool) bool {
	return slices.ContainsFunc(l.cfg.Rules, func(r config.Rule) bool { return r.Mode != config.Off && is(&r) })
}

func readsPath(r *config.Rule) bool {
	has := func(m *config.Match) bool { return m.Path != nil }
	return reads(r, config.FromPath, has, "request.path", "request.url_path")
}

// readsAddress reports whether a rule reads the client's address.
func readsAddress(r *config.Rule) bool {
	return reads(r, config.FromClientIP, func(m *config.Match) bool { return len(m.ClientIP) > 0 }, "source.address")
}

// reads reports whether a rule reads something: by a component, a field of its match, or an expression with one of
// some attributes.
func reads(r *config.Rule, from config.Source, has func(*config.Match) bool, attributes ...string) bool {
	names := func(expr string) bool {
		return slices.ContainsFunc(attributes, func(a string) bool { return strings.Contains(expr, a) })
	}
	var matches func(m config.Match) bool
	matches = func(m config.Match) bool { return has(&m) || names(m.Expr) || slices.ContainsFunc(m.Not, matches) }
	return matches(r.Match) || slices.ContainsFunc(r.Identify(), func(c config.Component) bool {
		return c.Source == from || names(c.Expr)
	})
}

func (l *Limiter) openAdmin() *yaml.Node {
	at := yamltree.Get(l.around.bootstrap, "admin", "address", "socket_address")
	if address := yamltree.Text(at, "address"); address == "0.0.0.0" || address == "::" {
		return at
	}
	return nil
}

// spec are the objects that have settings of Istio's: that of a WasmPlugin, those of a
// TrafficExtension.
func (l *Limiter) spec() []*yaml.Node {
	at := yamltree.Get(l.found.Owner, "spec")
	return []*yaml.Node{at, yamltree.Get(at, "wasm")}
}

// inSpec looks for a value of a setting of Istio's.
func inSpec(field, value string) func(*Limiter) *yaml.Node {
	return func(l *Limiter) *yaml.Node {
		for _, n := range l.spec() {
			if yamltree.Text(n, field) == value {
				return n
			}
		}
		return nil
	}
}

// clientSide looks for a plugin that looks at nothing but what workloads send.
func clientSide(l *Limiter) *yaml.Node {
	match := yamltree.List(l.spec()[0], "match")
	isOther := func(n *yaml.Node) bool { return yamltree.Text(n, "mode") != "CLIENT" }
	if match == nil || slices.ContainsFunc(match, isOther) {
		return nil
	}
	return match[0]
}

// beforeClaims looks for rules that read what Istio writes after the plugin.
func (l *Limiter) beforeClaims() *yaml.Node {
	for _, read := range readMetadata(l.found.JSON) {
		if read.path[0] == "envoy.filters.http.jwt_authn" || read.path[0] == "istio_authn" {
			return inSpec("phase", "AUTHN")(l)
		}
	}
	return nil
}
