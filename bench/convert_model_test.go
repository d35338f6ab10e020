package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A model of Envoy: which route it takes, and which descriptors its actions send.

type (
	hostModel struct {
		Domains    []string
		RateLimits []limitModel `yaml:"rate_limits"`
		Routes     []routeModel
	}
	routeModel struct {
		Name  string
		Match matchModel
		Route struct {
			RateLimits []limitModel `yaml:"rate_limits"`
			IncludeVh  bool         `yaml:"include_vh_rate_limits"`
		}
	}
	matchModel struct {
		Prefix, Path string
		Headers      []headerModel
	}
	headerModel struct {
		Name        string
		StringMatch struct{ Exact string } `yaml:"string_match"`
		InvertMatch bool                   `yaml:"invert_match"`
	}
	limitModel  struct{ Actions []actionModel }
	actionModel struct {
		RemoteAddress *struct{} `yaml:"remote_address"`
		GenericKey    *struct {
			DescriptorValue string `yaml:"descriptor_value"`
		} `yaml:"generic_key"`
		RequestHeaders *struct {
			HeaderName    string `yaml:"header_name"`
			DescriptorKey string `yaml:"descriptor_key"`
		} `yaml:"request_headers"`
		HeaderValueMatch *struct {
			DescriptorKey   string `yaml:"descriptor_key"`
			DescriptorValue string `yaml:"descriptor_value"`
			ExpectMatch     *bool  `yaml:"expect_match"`
			Headers         []headerModel
		} `yaml:"header_value_match"`
	}
)

// routing is what Envoy routes by: virtual hosts, or rate limits that stand alone.
type routing struct {
	hosts []hostModel
	bare  []limitModel
}

// read finds them in a file.
func (r *routing) read(n *yaml.Node) error {
	for i, inner := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch value := n.Content[i+1]; inner.Value {
			case "virtual_hosts":
				return value.Decode(&r.hosts)
			case "rate_limits":
				return value.Decode(&r.bare)
			}
		}
		if err := r.read(inner); err != nil {
			return err
		}
	}
	return nil
}

// limits are the rate limits of the route that Envoy takes, and the route's name. It reports false without a
// route.
func (r *routing) limits(v visit) (limits []limitModel, name string, routed bool) {
	if r.hosts == nil {
		return r.bare, "", true
	}
	// The virtual host is that of the name itself, else that of the longest domain with "*" before it.
	var best hostModel
	length := -1
	for _, h := range r.hosts {
		for _, domain := range h.Domains {
			suffix, wild := strings.CutPrefix(domain, "*")
			fits := len(suffix)
			if domain == v.host {
				fits = math.MaxInt
			} else if !wild || !strings.HasSuffix(v.host, suffix) {
				continue
			}
			if fits > length {
				best, length = h, fits
			}
		}
	}
	for _, r := range best.Routes {
		m := r.Match
		fails := slices.ContainsFunc(m.Headers, func(h headerModel) bool { return h.holds(v) == h.InvertMatch })
		if fails || m.Path != v.path && (m.Prefix == "" || !strings.HasPrefix(v.path, m.Prefix)) {
			continue
		}
		limits = slices.Clone(r.Route.RateLimits)
		if len(limits) == 0 || r.Route.IncludeVh {
			limits = append(limits, best.RateLimits...)
		}
		return limits, r.Name, true
	}
	return nil, "", false
}

func (h *headerModel) holds(v visit) bool {
	value, ok := v.headers[h.Name]
	return ok && value == h.StringMatch.Exact
}

// send returns the entries of the descriptor that the actions make of a request; nil if one of them makes none.
func (l *limitModel) send(v visit) (entries []map[string]string) {
	for _, a := range l.Actions {
		key, value, ok := "remote_address", v.ip, true
		switch {
		case a.RemoteAddress != nil:
		case a.GenericKey != nil:
			key, value = "generic_key", a.GenericKey.DescriptorValue
		case a.RequestHeaders != nil:
			key = a.RequestHeaders.DescriptorKey
			value, ok = v.headers[a.RequestHeaders.HeaderName]
		case a.HeaderValueMatch != nil:
			m := a.HeaderValueMatch
			holds := !slices.ContainsFunc(m.Headers, func(h headerModel) bool { return !h.holds(v) })
			key, value, ok = m.DescriptorKey, m.DescriptorValue, holds == (m.ExpectMatch == nil || *m.ExpectMatch)
		default:
			panic("an action that the test does not know")
		}
		if !ok {
			return nil
		}
		entries = append(entries, map[string]string{"key": key, "value": value})
	}
	return entries
}

// visit is one request, as both sides see it.
type visit struct {
	host, path string
	headers    map[string]string
	ip         string
}

// visits are what requests are drawn from. Of headers the first word is the name; a value of "-" is none.
type visits struct{ hosts, paths, ips, headers string }

// plain are requests of the examples.
var plain = visits{
	hosts: "a.example.com b.example.com",
	paths: "/healthz /api/x /other /v1/x /v1/infer /public/",
	ips:   "203.0.113.7 203.0.113.8 198.51.100.1",
	headers: `x-service - batch legacy web1 web2 shop we
x-type - marketing news
x-to-number - 1 2
x-tenant - a b c
x-plan - free pro
x-api-key - internal-batch vip-1 vip-2 k1 k2`,
}

func (l *visits) draw(random *rand.Rand) visit {
	pick := func(words string) string {
		list := strings.Fields(words)
		return list[random.IntN(len(list))]
	}
	v := visit{host: pick(l.hosts), path: pick(l.paths), ip: pick(l.ips), headers: map[string]string{}}
	for line := range strings.Lines(l.headers) {
		name, values, _ := strings.Cut(line, " ")
		if value := pick(values); value != "-" {
			v.headers[name] = value
		}
	}
	return v
}
