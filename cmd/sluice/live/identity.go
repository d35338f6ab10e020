package live

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Identity is one identity of one rule, and what a request of it asks: Costs of 1 each and no Sizes, where these
// are nil.
type Identity struct {
	Rule *config.Rule
	rule.Demand
	// Sets are the limits that may apply: one list, or that of each tier; an unlimited tier has none.
	Sets []*rule.LimitSet
	// Per is what --per says, in order, of the limits with "per", where Values are nil; nil both: they are looked
	// for in Redis, and Scanned is set.
	Per     []string
	Scanned bool
	setting string // of its override; "": none
}

// Tiers are the names of its rule's tiers.
func (id *Identity) Tiers() []string {
	if id.Rule.Tiers == nil {
		return nil
	}
	return id.Rule.Tiers.Names()
}

// choose finds the limits: the tier's that is named, that the request has, or all.
func (id *Identity) choose(tier string, req *explain.Request) error {
	alone := *id.Rule // in a configuration of its own, where it applies to everything
	alone.Match, alone.Mode = config.Match{}, config.Enforce
	set, err := rule.Compile(&config.Config{Rules: []config.Rule{alone}}, nil)
	console.Must(err)
	tiers := id.Rule.Tiers
	id.Sets = nil
	if tiers == nil {
		if tier != "" {
			return fmt.Errorf("rule %q has no tiers: leave out --tier", id.Rule.Name)
		}
		id.Sets = set.LimitSets[:1]
		return nil
	}
	names, isSource := tiers.Names(), func(c config.Component) bool { return same(&c, &tiers.Source) }
	if tier == "" && req != nil && slices.ContainsFunc(id.Rule.Key, isSource) {
		var m rule.Matcher
		if applied, _, _ := set.Apply(req, &m); len(applied) == 1 {
			tier = explain.TierOf(tiers, applied[0].Limits)
		}
	}
	if tier == "" && tiers.Source.Source == config.FromConstant {
		if tier = tiers.Source.Value; !slices.Contains(names, tier) { // all requests have it, but for overrides
			tier = tiers.Default
		}
	}
	if tier != "" && !slices.Contains(names, tier) {
		return fmt.Errorf("rule %q has no tier %q (want one of %s)", id.Rule.Name, tier, shown.Quoted(names))
	}
	for _, name := range names {
		limits := set.Tier(set.Rules[0].ID, name)
		if (tier == "" || tier == name) && limits != nil && len(limits.Limits) > 0 {
			id.Sets = append(id.Sets, limits)
		}
	}
	return nil
}

// same reports whether two components read the same thing.
func same(a, b *config.Component) bool {
	return a.Source == b.Source && a.Name == b.Name && slices.Equal(a.Path, b.Path)
}

// Tagger makes the tags of many identities of one rule.
type Tagger struct {
	Rule *config.Rule
	// Any stands for any identity of the rule: all limits of the rule may apply to it.
	Any *Identity

	makes   string // what values make
	prefix  string
	set     *rule.Set
	matcher rule.Matcher
}

// NewTagger prepares the rule of a name, whatever its mode.
func NewTagger(cfg *config.Config, name string) (*Tagger, error) {
	var names []string
	for i := range cfg.Rules {
		switch r := &cfg.Rules[i]; {
		case r.Exempt:
		case r.Name == name:
			t := tagger(r, cfg.HashSecret)
			t.Any = &Identity{Rule: r}
			return t, t.Any.choose("", nil)
		default:
			names = append(names, r.Name)
		}
	}
	return nil, fmt.Errorf("no rule %q (want one of %s)", name, shown.Quoted(names))
}

// tagger prepares a rule for its tags alone, which neither its limits nor its tiers change.
func tagger(r *config.Rule, hashSecret string) *Tagger {
	only := explain.Probe(config.Rule{Name: r.Name, Key: r.Key})
	only.HashSecret = hashSecret
	set, err := rule.Compile(only, nil)
	console.Must(err) // as it was read
	makes := fmt.Sprintf("identity of rule %q", r.Name)
	return &Tagger{Rule: r, makes: makes, prefix: rule.TagPrefix(r.Name), set: set}
}

// Tag is the tag of the identity that values make, good until the next call, and a request that has them.
func (t *Tagger) Tag(values []string) (tag []byte, req *explain.Request, err error) {
	if req, err = request(t.Rule, values); err != nil {
		return nil, nil, err
	}
	applied, _, _ := t.set.Apply(req, &t.matcher)
	if len(applied) == 0 {
		return nil, nil, fmt.Errorf("these values make no %s (want %s)", t.makes, wanted(valued(t.Rule.Key)))
	}
	return applied[0].Tag, req, nil
}

// Identity is the identity as Redis' keys, logs and top show it, escaped or hashed; nil: the one that the values
// of the key make, in order; constants have none. tier chooses one of limits_by; empty: the one that the values
// choose, or all.
func (t *Tagger) Identity(tier string, shown *string, values []string) (id *Identity, err error) {
	id = &Identity{Rule: t.Rule}
	var req *explain.Request
	if shown != nil {
		id.Tag = t.TagOf(*shown)
	} else if id.Tag, req, err = t.Tag(values); err != nil {
		return nil, err
	}
	return id, id.choose(tier, req)
}

// TagOf is the tag of an identity as Redis' keys show it.
func (t *Tagger) TagOf(identity string) []byte { return []byte(t.prefix + shown.Identity(identity)) }

// Values are those that make an identity; nil if none are known to, as of one that is hashed.
func (t *Tagger) Values(identity string) (values []string) {
	parts := strings.Split(identity, "|")
	if len(parts) != len(t.Rule.Key) {
		return nil
	}
	for i, part := range parts {
		if t.Rule.Key[i].Source != config.FromConstant {
			values = append(values, shown.Unescape(part, 0))
		}
	}
	if tag, _, err := t.Tag(values); err != nil || string(tag) != t.prefix+identity {
		return nil
	}
	return values
}

// request makes a request whose components have these values.
func request(r *config.Rule, values []string) (*explain.Request, error) {
	components := valued(r.Key)
	if len(values) != len(components) {
		return nil, fmt.Errorf("the key of rule %q has %s, %d given (want %s)", r.Name,
			console.Count(len(components), "value"), len(values), wanted(components))
	}
	method, host, path, query := "GET", "h", "/", url.Values{}
	for i, c := range components {
		switch c.Source {
		case config.FromQuery:
			query.Set(c.Name, values[i])
		case config.FromPath:
			path = values[i]
		case config.FromMethod:
			method = values[i]
		case config.FromHost:
			host = values[i]
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	req, err := explain.NewRequest(method, "http://"+host+path)
	for i, c := range components {
		if err != nil {
			return nil, err
		}
		value := values[i]
		switch c.Source {
		case config.FromQuery, config.FromPath, config.FromMethod, config.FromHost:
		case config.FromHeader:
			err = req.AddHeader(c.Name + ": " + value)
		case config.FromBearer:
			if err = req.AddHeader("authorization: Bearer " + value); !bearerToken.MatchString(value) {
				err = fmt.Errorf("%q is no token, so that nobody has it (want the token alone, without the word Bearer)", value)
			}
		case config.FromCookie:
			err = req.AddHeader("cookie: " + c.Name + "=" + url.PathEscape(value))
		case config.FromClientIP:
			err = putAddress(req, c, value)
		case config.FromMetadata:
			err = req.SetProperty("metadata.filter_metadata." + strings.Join(c.Path, ".") + "=" + value)
		case config.FromProperty:
			err = req.SetProperty(strings.Join(c.Path, ".") + "=" + value)
		default:
			err = fmt.Errorf("a key with an expression: give the identity itself, --identity")
		}
	}
	return req, err
}

// valued are the components of a key that have values: all but constants.
func valued(key []config.Component) (all []*config.Component) {
	for i := range key {
		if key[i].Source != config.FromConstant {
			all = append(all, &key[i])
		}
	}
	return all
}

// wanted names the values of components.
func wanted(components []*config.Component) string {
	var names []string
	for _, c := range components {
		if name := explain.Describe(c); name != "" {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// bearerToken is a token of RFC 6750, section 2.1.
var bearerToken = regexp.MustCompile(`^[A-Za-z0-9\-._~+/=]+$`)

// putAddress sets the client's address, which may be written as the network that the key makes of it.
func putAddress(req *explain.Request, c *config.Component, value string) error {
	address, stated, hasPrefix := strings.Cut(value, "/")
	if req.SetClientIP(address) != nil {
		return fmt.Errorf("%q is not an address", value)
	}
	bits, width := c.V6Prefix, 128
	if addr, _ := ipaddr.Parse(address); addr.Is4() {
		bits, width = c.V4Prefix, 32
	}
	switch {
	case !hasPrefix || stated == strconv.Itoa(bits):
		return nil
	case bits == width:
		return fmt.Errorf("%q is a network, and the key has single addresses: nobody would be counted by it "+
			"(want an address)", value)
	}
	return fmt.Errorf("%q is no identity: the key has networks of /%d (want an address, or %s/%d)",
		value, bits, address, bits)
}
