package state

import (
	"fmt"
	"net/netip"
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
	case config.FromBearer:
		return "the bearer token"
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
	case config.FromBearer:
		b.headers = append(b.headers, [2]string{"authorization", "Bearer " + value})
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
