package live

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
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
		if err == nil {
			err = put(req, c, values[i])
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

// put sets what a component is read from, if it is not in the first line.
func put(req *explain.Request, c *config.Component, value string) error {
	switch c.Source {
	case config.FromQuery, config.FromPath, config.FromMethod, config.FromHost:
		return nil
	case config.FromHeader:
		return req.AddHeader(c.Name + ": " + value)
	case config.FromBearer:
		if !bearerToken.MatchString(value) {
			return fmt.Errorf("%q is no token, so that nobody has it (want the token alone, without the word Bearer)", value)
		}
		return req.AddHeader("authorization: Bearer " + value)
	case config.FromCookie:
		return req.AddHeader("cookie: " + c.Name + "=" + url.PathEscape(value))
	case config.FromClientIP:
		return putAddress(req, c, value)
	case config.FromMetadata:
		return req.SetProperty("metadata.filter_metadata." + strings.Join(c.Path, ".") + "=" + value)
	case config.FromProperty:
		return req.SetProperty(strings.Join(c.Path, ".") + "=" + value)
	}
	return fmt.Errorf("a key with an expression: give the identity itself, --identity")
}
