package live

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file makes a request that has the values of a rule's key.

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

// Limits with "per" have a counter for each value within an identity.

// counter is the subject of one limit: the identity, or a value within it.
type counter struct {
	limit  int
	values string // as in keys; "" for the identity itself
}

// suffix is that of the counter's key.
func (k counter) suffix(set *rule.LimitSet) string { return set.KeySuffixes[k.limit] + k.values }

// counters are those of an identity among limits: of one with "per" that of the values that are
// known, or else all that Redis has.
func (s *session) counters(ctx context.Context, id *Identity, set *rule.LimitSet) (all []counter, err error) {
	for i := range set.Limits {
		if !set.IsPer(i) {
			all = append(all, counter{limit: i})
			continue
		}
		values, known, err := id.valuesOf(set, i)
		switch {
		case err != nil:
			return nil, console.Redis(err)
		case known && values != "":
			all = append(all, counter{i, values})
		case !known:
			var found []string
			begin := s.key(id.Tag, set.KeySuffixes[i])
			if err := s.eachKey(ctx, escapeGlob(begin)+"*", func(keys []string) error {
				for _, key := range keys {
					found = append(found, strings.TrimPrefix(key, begin))
				}
				return nil
			}); err != nil {
				return nil, err
			}
			id.Scanned = true
			slices.Sort(found)
			for _, values := range slices.Compact(found) {
				all = append(all, counter{i, values})
			}
		}
	}
	return all, nil
}

// valuesOf are the values of a limit with "per"; "" if the limit does not apply. known is false if
// neither a request nor --per has any.
func (id *Identity) valuesOf(set *rule.LimitSet, limit int) (values string, known bool, err error) {
	if id.Values != nil {
		found, _ := set.ValuesOf(id.Values, limit)
		return string(found), true, nil
	}
	if id.Per == nil {
		return "", false, nil
	}
	var all []*config.Component // those of "per" in the order in which --per has their values: each once
	for _, set := range id.Sets {
		for i := range set.Limits {
			for _, c := range valued(set.Limits[i].Per) {
				known := func(other *config.Component) bool { return same(c, other) }
				if !slices.ContainsFunc(all, known) {
					all = append(all, c)
				}
			}
		}
	}
	if len(id.Per) > len(all) {
		return "", false, fmt.Errorf("rule %q has %s in \"per\", %d given (want %s)", id.Rule.Name,
			console.Count(len(all), "value"), len(id.Per), wanted(all))
	}
	per := set.Limits[limit].Per
	var given []string
	for _, c := range valued(per) {
		at := slices.IndexFunc(all, func(other *config.Component) bool { return same(c, other) })
		if at >= len(id.Per) {
			return "", true, nil // it does not apply to these values
		}
		given = append(given, id.Per[at])
	}
	t, err := tagger(&config.Rule{Name: "per", Key: per}, "")
	if err != nil {
		return "", true, err
	}
	t.makes = "part of an identity"
	tag, _, err := t.Tag(given)
	_, values, _ = strings.Cut(string(tag), "|")
	return values, true, err
}
