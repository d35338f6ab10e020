package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// words say what a component of a key reads, and where it is absent, which flag provides it.
var words = map[config.Source]struct{ value, absent string }{
	config.FromHeader:   {"the header NAME", "header QUOTED (-H 'NAME: ...')"},
	config.FromCookie:   {"the cookie NAME", "cookie QUOTED (-H 'cookie: NAME=...')"},
	config.FromQuery:    {"the query parameter NAME", "query parameter QUOTED"},
	config.FromClientIP: {"the client's address", "client_ip (--client-ip)"},
	config.FromPath:     {"the path", "its source"},
	config.FromMethod:   {"the method", "its source"},
	config.FromHost:     {"the host", "its source"},
	config.FromMetadata: {"PATH", "metadata LIST (--metadata)"},
	config.FromProperty: {"PATH", "property PATH (--property PATH=...)"},
	config.FromBearer:   {"the bearer token", "a bearer token (-H 'authorization: Bearer ...')"},
	config.FromConstant: {"", "its source"},
	config.FromExpr:     {"", "its expression has no value"},
}

// named puts a component's name into its words.
func named(text string, c *config.Component) string {
	return strings.NewReplacer("NAME", c.Name, "QUOTED", strconv.Quote(c.Name), "LIST", fmt.Sprintf("%q", c.Path),
		"PATH", strings.Join(c.Path, ".")).Replace(text)
}

// Describe names a component's value; "" for a constant.
func Describe(c *config.Component) string { return named(words[c.Source].value, c) }

// marks are what stands in an identity for a value that counts as unknown
// (docs/configuration.md, "Repeated values").
var marks = map[string]string{
	"%many": "has several different values",
	"%odd":  "is none that upstreams agree on",
	"%long": "is too long to be read",
}

// shared says which components of an identity are marks, and why.
func shared(key []config.Component, identity string) (all []string) {
	parts := strings.Split(identity, "|")
	for i := range key {
		if i < len(parts) && marks[parts[i]] != "" {
			all = append(all, fmt.Sprintf("%s: %s %s", parts[i], Describe(&key[i]), marks[parts[i]]))
		}
	}
	return all
}

// sourceOf says where a component gets its value, and which flag provides it.
func sourceOf(c *config.Component) string { return named(words[c.Source].absent, c) }
