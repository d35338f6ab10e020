package state

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Identity is one identity of one rule.
type Identity struct {
	Rule *config.Rule
	Tag  []byte
	// Sets are the limits that may apply: one list, or a tier's each.
	Sets []Set
	// Factor is what its limits are multiplied by, in thousandths; 0: nothing.
	Factor int64
}

func (id *Identity) factor() int64 {
	if id.Factor == 0 {
		return algo.NoFactor
	}
	return id.Factor
}

// Set is a list of limits, and the tier that it belongs to, if any.
type Set struct {
	Tier   string
	Limits *rule.LimitSet
}

// find is a rule of a configuration, whatever its mode.
func find(cfg *config.Config, name string) (*config.Rule, error) {
	var names []string
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if r.Name == name && !r.Exempt {
			return r, nil
		}
		if !r.Exempt {
			names = append(names, fmt.Sprintf("%q", r.Name))
		}
	}
	return nil, fmt.Errorf("no rule %q (want one of %s)", name, strings.Join(names, ", "))
}

// alone is a configuration of one rule that applies to everything.
func alone(r *config.Rule) *config.Config {
	only := *r
	only.Match, only.Mode = config.Match{}, config.Enforce
	return &config.Config{Rules: []config.Rule{only}}
}

// Of is the identity that the values of a rule's key make, in order; constants have
// none. tier chooses one of limits_by; empty: the one that the values choose, or
// all.
func Of(cfg *config.Config, name, tier string, values []string) (*Identity, error) {
	r, err := find(cfg, name)
	if err != nil {
		return nil, err
	}
	req, err := request(r, values)
	if err != nil {
		return nil, err
	}
	// The limits are not asked for yet, so that the tier need not be known.
	untiered := alone(r)
	if r.Tiers != nil {
		untiered.Rules[0].Tiers, untiered.Rules[0].Limits = nil, anyLimits(r.Tiers)
	}
	set, err := rule.Compile(untiered, nil)
	if err != nil {
		return nil, err
	}
	var m rule.Matcher
	applied, _ := set.Apply(req, &m)
	if len(applied) == 0 {
		return nil, fmt.Errorf("these values make no identity of rule %q (want %s)", name, wanted(r))
	}
	id := &Identity{Rule: r, Tag: append([]byte(nil), applied[0].Tag...)}
	return id, id.choose(tier, req)
}

// Tagged is the identity as Redis' keys, logs and top show it, escaped or hashed.
func Tagged(cfg *config.Config, name, tier, identity string) (*Identity, error) {
	r, err := find(cfg, name)
	if err != nil {
		return nil, err
	}
	prefix, err := tagPrefix(r)
	if err != nil {
		return nil, err
	}
	id := &Identity{Rule: r, Tag: append([]byte(prefix), identity...)}
	return id, id.choose(tier, nil)
}

// tagPrefix is what all tags of a rule begin with: its name, escaped, and "|".
func tagPrefix(r *config.Rule) (string, error) {
	keyless := alone(r)
	keyless.Rules[0].Key = nil
	if r.Tiers != nil {
		keyless.Rules[0].Tiers, keyless.Rules[0].Limits = nil, anyLimits(r.Tiers)
	}
	set, err := rule.Compile(keyless, nil)
	if err != nil {
		return "", err
	}
	req, err := explain.NewRequest("GET", "http://h/")
	if err != nil {
		return "", err
	}
	var m rule.Matcher
	applied, _ := set.Apply(req, &m)
	if len(applied) == 0 {
		return "", fmt.Errorf("rule %q makes no keys", r.Name)
	}
	return string(applied[0].Tag), nil
}

// anyLimits are the limits of some tier.
func anyLimits(t *config.Tiers) []config.Limit {
	for i := range t.Values {
		if !t.Values[i].Unlimited {
			return t.Values[i].Limits
		}
	}
	return nil
}

// choose finds the limits: the tier's that is named, that the request has, or all.
func (id *Identity) choose(tier string, req *explain.Request) error {
	set, err := rule.Compile(alone(id.Rule), nil)
	if err != nil {
		return err
	}
	tiers := id.Rule.Tiers
	if tiers == nil {
		if tier != "" {
			return fmt.Errorf("rule %q has no tiers: leave out --tier", id.Rule.Name)
		}
		id.Sets = []Set{{Limits: set.LimitSets[0]}}
		return nil
	}
	if tier == "" && req != nil && tiersByKey(id.Rule) {
		var m rule.Matcher
		if applied, _ := set.Apply(req, &m); len(applied) == 1 {
			tier = tierOf(tiers, applied[0].Limits)
		}
	}
	next := 0
	var names []string
	for i := range tiers.Values {
		t := &tiers.Values[i]
		names = append(names, fmt.Sprintf("%q", t.Value))
		var limits *rule.LimitSet
		if !t.Unlimited {
			limits = set.LimitSets[next]
		}
		if !t.Unlimited || set.Rules[0].HasTerms() {
			next++ // with terms an unlimited tier has a set, too, of no limits
		}
		if tier == "" && limits != nil || tier == t.Value {
			id.Sets = append(id.Sets, Set{t.Value, limits})
		}
	}
	if len(id.Sets) == 0 {
		return fmt.Errorf("rule %q has no tier %q (want one of %s)", id.Rule.Name, tier, strings.Join(names, ", "))
	}
	return nil
}

// tiersByKey reports whether a value of the key chooses the tier.
func tiersByKey(r *config.Rule) bool {
	for i := range r.Key {
		if same(&r.Key[i], &r.Tiers.Source) {
			return true
		}
	}
	return false
}

// same reports whether two components read the same thing.
func same(a, b *config.Component) bool {
	return a.Source == b.Source && a.Name == b.Name && strings.Join(a.Path, "\x00") == strings.Join(b.Path, "\x00")
}

func tierOf(tiers *config.Tiers, limits *rule.LimitSet) string {
	for i := range tiers.Values {
		t := &tiers.Values[i]
		unlimited := limits == nil || len(limits.Limits) == 0
		if unlimited && t.Unlimited || !unlimited && !t.Unlimited && &t.Limits[0] == &limits.Limits[0] {
			return t.Value
		}
	}
	return ""
}

// request makes a request whose components have these values.
func request(r *config.Rule, values []string) (*explain.Request, error) {
	count := 0
	for i := range r.Key {
		if r.Key[i].Source != config.FromConstant {
			count++
		}
	}
	if len(values) != count {
		return nil, fmt.Errorf("rule %q has %d values, %d are given (want %s)", r.Name, count, len(values), wanted(r))
	}
	b := builder{method: "GET", host: "h", path: "/"}
	for i := range r.Key {
		if r.Key[i].Source == config.FromConstant {
			continue
		}
		if err := b.put(&r.Key[i], values[0]); err != nil {
			return nil, err
		}
		values = values[1:]
	}
	return b.request()
}

// wanted names the values of a rule's key.
func wanted(r *config.Rule) string {
	var names []string
	for i := range r.Key {
		if name := describe(&r.Key[i]); name != "" {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// describe names a component's value; "" for a constant.
func describe(c *config.Component) string {
	switch c.Source {
	case config.FromHeader:
		return "the header " + c.Name
	case config.FromCookie:
		return "the cookie " + c.Name
	case config.FromQuery:
		return "the query parameter " + c.Name
	case config.FromClientIP:
		return "the client's address"
	case config.FromPath:
		return "the path"
	case config.FromMethod:
		return "the method"
	case config.FromHost:
		return "the host"
	case config.FromConstant:
		return ""
	}
	return strings.Join(c.Path, ".")
}

// builder collects a request.
type builder struct {
	method, host, path string
	query              url.Values
	headers            [][2]string
	ip                 string
	properties         []string
}

// put gives a component its value.
func (b *builder) put(c *config.Component, value string) error {
	switch c.Source {
	case config.FromHeader:
		b.headers = append(b.headers, [2]string{c.Name, value})
	case config.FromCookie:
		b.headers = append(b.headers, [2]string{"cookie", c.Name + "=" + url.PathEscape(value)})
	case config.FromQuery:
		if b.query == nil {
			b.query = url.Values{}
		}
		b.query.Set(c.Name, value)
	case config.FromClientIP:
		text, _, _ := strings.Cut(value, "/") // of a network, its address
		if _, err := netip.ParseAddr(text); err != nil {
			return fmt.Errorf("%q is not an address", value)
		}
		b.ip = text
	case config.FromPath:
		b.path = value
	case config.FromMethod:
		b.method = value
	case config.FromHost:
		b.host = value
	case config.FromMetadata:
		b.properties = append(b.properties, "metadata.filter_metadata."+strings.Join(c.Path, ".")+"="+value)
	case config.FromProperty:
		b.properties = append(b.properties, strings.Join(c.Path, ".")+"="+value)
	default:
		return fmt.Errorf("a key with an expression: give the identity itself, --identity")
	}
	return nil
}

func (b *builder) request() (*explain.Request, error) {
	target := "http://" + b.host + b.path
	if b.query != nil {
		target += "?" + b.query.Encode()
	}
	req, err := explain.NewRequest(b.method, target)
	if err != nil {
		return nil, err
	}
	for _, h := range b.headers {
		if err := req.AddHeader(h[0] + ": " + h[1]); err != nil {
			return nil, err
		}
	}
	for _, p := range b.properties {
		if err := req.SetProperty(p); err != nil {
			return nil, err
		}
	}
	if b.ip != "" {
		return req, req.SetClientIP(b.ip)
	}
	return req, nil
}
