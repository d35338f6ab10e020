package main

import (
	"math/rand/v2"
	"slices"
	"strings"
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
		Match struct {
			Prefix, Path string
			Headers      []headerModel
		}
		Route struct {
			RateLimits []limitModel `yaml:"rate_limits"`
			IncludeVh  bool         `yaml:"include_vh_rate_limits"`
		}
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

// limits are the rate limits of the route that Envoy takes, and the route's name. It reports false without a
// route.
func (d *duel) limits(s visit) (limits []limitModel, name string, routed bool) {
	if d.hosts == nil {
		return d.bare, "", true
	}
	h := d.host(s.host)
	if h == nil {
		return nil, "", false
	}
	for _, r := range h.Routes {
		if !r.takes(s) {
			continue
		}
		limits = slices.Clone(r.Route.RateLimits)
		if len(limits) == 0 || r.Route.IncludeVh {
			limits = append(limits, h.RateLimits...)
		}
		return limits, r.Name, true
	}
	return nil, "", false
}

// host is the virtual host of a name: that of the name itself, else that of the longest
// domain with "*" before it.
func (d *duel) host(name string) (best *hostModel) {
	length := -1
	for i := range d.hosts {
		for _, domain := range d.hosts[i].Domains {
			if domain == name {
				return &d.hosts[i]
			}
			suffix, wild := strings.CutPrefix(domain, "*")
			if matches := wild && strings.HasSuffix(name, suffix); matches && len(suffix) > length {
				best, length = &d.hosts[i], len(suffix)
			}
		}
	}
	return best
}

func (r *routeModel) takes(s visit) bool {
	for _, h := range r.Match.Headers {
		if h.holds(s) == h.InvertMatch {
			return false
		}
	}
	return r.Match.Path == s.path || r.Match.Prefix != "" && strings.HasPrefix(s.path, r.Match.Prefix)
}

func (h *headerModel) holds(s visit) bool {
	value, ok := s.headers[h.Name]
	return ok && value == h.StringMatch.Exact
}

// send returns the descriptor entry that an action makes of a request.
func (a *actionModel) send(s visit) (key, value string, ok bool) {
	switch {
	case a.RemoteAddress != nil:
		return "remote_address", s.ip, true
	case a.GenericKey != nil:
		return "generic_key", a.GenericKey.DescriptorValue, true
	case a.RequestHeaders != nil:
		value, ok := s.headers[a.RequestHeaders.HeaderName]
		return a.RequestHeaders.DescriptorKey, value, ok
	case a.HeaderValueMatch != nil:
		m := a.HeaderValueMatch
		holds := true
		for _, h := range m.Headers {
			holds = holds && h.holds(s)
		}
		return m.DescriptorKey, m.DescriptorValue, holds == (m.ExpectMatch == nil || *m.ExpectMatch)
	}
	panic("an action that the test does not know")
}

// visit is one request, as both sides see it.
type visit struct {
	host, path string
	headers    map[string]string
	ip         string
}

func randomRequest(random *rand.Rand) visit {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	s := visit{
		host: pick("a.example.com", "b.example.com"),
		path: pick("/healthz", "/api/x", "/other", "/v1/x", "/v1/infer", "/public/"),
		ip:   pick("203.0.113.7", "203.0.113.8", "198.51.100.1"), headers: map[string]string{},
	}
	for name, values := range map[string][]string{
		"x-service": {"", "batch", "legacy", "web1", "web2", "shop", "we"}, "x-type": {"", "marketing", "news"},
		"x-to-number": {"", "1", "2"},
		"x-tenant":    {"", "a", "b", "c"}, "x-plan": {"", "free", "pro"},
		"x-api-key": {"", "internal-batch", "vip-1", "vip-2", "k1", "k2"},
	} {
		if value := pick(values...); value != "" {
			s.headers[name] = value
		}
	}
	return s
}
