package rule

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/pattern"
)

// match is a compiled config.Match: all of its parts must hold. Whether they do may be
// unknown, where a value is too long to be looked at.
type match struct {
	methods    []string    // none: any; in upper case
	exempt     bool        // of an exempt rule
	clients    *ipaddr.Set // nil: any
	conditions []condition
	expression int     // column; noExpression for none
	not        []match // none may hold
}

// condition compares one text of a request.
type condition struct {
	of     subject
	source component // ofNamed only
	plain  bool      // of the path: unknown unless it is written as it is read
	config.StringMatch
	pattern *pattern.Pattern // Contains and Regex only
}

// subject is the part of a request that a condition compares.
type subject uint8

const (
	ofPath subject = iota
	ofHost
	ofNamed // a header, a query parameter, a cookie
)

// compileMatch compiles the match of a rule. Paths and hosts are compared in the
// spelling that requests' are brought into; the configuration's hosts are in lower
// case already.
func (s *Set) compileMatch(c *config.Match, exempt bool) match {
	m := match{methods: c.Methods, exempt: exempt}
	if c.ClientIP != nil {
		m.clients = ipaddr.NewSet(c.ClientIP)
		s.addressSlot = s.attributeColumn(sourceAddress)
	}
	if c.Path != nil {
		m.conditions = append(m.conditions, condition{of: ofPath, plain: exempt, StringMatch: *c.Path})
	}
	if c.Host != nil {
		host := condition{of: ofHost, StringMatch: *c.Host}
		if host.Op == config.Exact {
			host.Value = string(appendHost(nil, host.Value))
		}
		m.conditions = append(m.conditions, host)
	}
	for _, source := range []config.Source{config.FromHeader, config.FromQuery, config.FromCookie} {
		for _, named := range c.Named(source) {
			from := s.compileComponent(nil, &config.Component{Source: source, Name: named.Name})
			m.conditions = append(m.conditions, condition{of: ofNamed, source: from, StringMatch: named.Match})
		}
	}
	for i := range m.conditions {
		switch c := &m.conditions[i]; c.Op {
		case config.Contains:
			c.pattern = pattern.Literal(c.Value)
		case config.Regex: // conditions that look for the same one share it
			if s.patterns[c.Value] == nil {
				compiled, err := pattern.Compile(c.Value)
				if err != nil {
					s.fail(err)
				}
				s.patterns[c.Value] = compiled
			}
			c.pattern = s.patterns[c.Value]
		}
	}
	m.expression = s.expressionColumn(c.Expr, config.BoolExpression)
	for i := range c.Not {
		m.not = append(m.not, s.compileMatch(&c.Not[i], exempt))
	}
	return m
}

// matches reports whether a match holds for the request. What costs least is looked
// at first.
func (m *Matcher) matches(c *match) pattern.Result {
	all := pattern.Yes
	if len(c.methods) > 0 {
		// Some upstreams take post for POST, which HTTP/2 carries, and others for some method that they do
		// not know, so such a method may be one of them or not. It never makes a request exempt.
		switch method := m.methodOf(); {
		case method.state == absent:
			return pattern.No
		case method.state == tooLong || c.exempt && !m.plainMethod:
			all = pattern.Unknown
		case !slices.Contains(c.methods, method.value):
			return pattern.No
		case !m.plainMethod:
			all = pattern.Unknown
		}
	}
	for i := range c.conditions {
		all = min(all, m.meets(&c.conditions[i]))
		if all == pattern.No {
			return pattern.No
		}
	}
	if c.clients != nil {
		if m.client.state == unread {
			addr, ok := ipaddr.ParseSource(m.propertyOf(m.set.addressSlot).value)
			m.client = client{addr: addr, state: read("", ok).state}
		}
		if m.client.state != present || !c.clients.Contains(m.client.addr) {
			return pattern.No
		}
	}
	if c.expression != noExpression {
		if r := m.expressionOf(c.expression); r.state != present || r.value != "\x01" {
			return pattern.No
		}
	}
	for i := range c.not {
		all = min(all, m.matches(&c.not[i]).Not())
		if all == pattern.No {
			return pattern.No
		}
	}
	return all
}

// client is the client's address, which is parsed at most once for matches.
type client struct {
	addr  ipaddr.Addr
	state state
}

// meets reports whether the request meets a condition.
func (m *Matcher) meets(c *condition) pattern.Result {
	var r reading
	switch c.of {
	case ofPath:
		r = m.pathOf()
		if c.plain && c.Op != config.Present && r.state == present && !m.plainPath {
			return pattern.Unknown
		}
	case ofHost:
		r = m.hostOf()
	case ofNamed:
		if r = m.sourceOf(&c.source); r.state == tooLong {
			return pattern.Unknown // the name may be there, too
		}
	}
	switch {
	case c.Op == config.Present:
		return pattern.Is(c.Present == (r.state != absent))
	case r.state == absent:
		return pattern.No
	case r.state.isUnknown():
		return pattern.Unknown
	case c.Op == config.Exact:
		return pattern.Is(r.value == c.Value)
	case c.Op == config.Prefix:
		return pattern.Is(strings.HasPrefix(r.value, c.Value))
	case c.Op == config.Suffix:
		return pattern.Is(strings.HasSuffix(r.value, c.Value))
	}
	var found pattern.Result
	found, m.patternUnits = m.machine.Match(c.pattern, r.value, m.patternUnits)
	return found
}
