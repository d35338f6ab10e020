package state

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// This file makes a request that has the values of a rule's key.

// request makes a request whose components have these values.
func request(r *config.Rule, values []string) (*explain.Request, error) {
	count := 0
	for i := range r.Key {
		if r.Key[i].Source != config.FromConstant {
			count++
		}
	}
	if len(values) != count {
		return nil, fmt.Errorf("the key of rule %q has %s, %d given (want %s)", r.Name, amount(count), len(values), wanted(r))
	}
	t := target{method: "GET", host: "h", path: "/", query: url.Values{}}
	given := map[*config.Component]string{}
	for i := range r.Key {
		if c := &r.Key[i]; c.Source != config.FromConstant {
			given[c] = values[len(given)]
			t.take(c, given[c])
		}
	}
	req, err := explain.NewRequest(t.method, t.url())
	for i := range r.Key {
		if value, ok := given[&r.Key[i]]; ok && err == nil {
			err = put(req, &r.Key[i], value)
		}
	}
	return req, err
}

func amount(values int) string {
	if values == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", values)
}

// wanted names the values of a rule's key.
func wanted(r *config.Rule) string {
	var names []string
	for i := range r.Key {
		if name := explain.Describe(&r.Key[i]); name != "" {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// target is the target in the first line of a request.
type target struct {
	method, host, path string
	query              url.Values
}

// take sets what a component is read from, if it is in the first line.
func (t *target) take(c *config.Component, value string) {
	switch c.Source {
	case config.FromQuery:
		t.query.Set(c.Name, value)
	case config.FromPath:
		t.path = value
	case config.FromMethod:
		t.method = value
	case config.FromHost:
		t.host = value
	}
}

func (t *target) url() string {
	if len(t.query) == 0 {
		return "http://" + t.host + t.path
	}
	return "http://" + t.host + t.path + "?" + t.query.Encode()
}

// put sets what a component is read from, if it is not in the first line.
func put(req *explain.Request, c *config.Component, value string) error {
	switch c.Source {
	case config.FromQuery, config.FromPath, config.FromMethod, config.FromHost:
		return nil
	case config.FromHeader:
		return req.AddHeader(c.Name + ": " + value)
	case config.FromBearer:
		return req.AddHeader("authorization: Bearer " + value)
	case config.FromCookie:
		return req.AddHeader("cookie: " + c.Name + "=" + url.PathEscape(value))
	case config.FromClientIP:
		address, _, _ := strings.Cut(value, "/") // of a network, its address
		if req.SetClientIP(address) != nil {
			return fmt.Errorf("%q is not an address", value)
		}
		return nil
	case config.FromMetadata:
		return req.SetProperty("metadata.filter_metadata." + strings.Join(c.Path, ".") + "=" + value)
	case config.FromProperty:
		return req.SetProperty(strings.Join(c.Path, ".") + "=" + value)
	}
	return fmt.Errorf("a key with an expression: give the identity itself, --identity")
}
