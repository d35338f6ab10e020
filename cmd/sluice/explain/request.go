// Package explain says which rules apply to a request, and why the others do
// not.
package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/envoycel"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Request is a request as rules see it.
type Request struct {
	headers    [][2]string       // names in lower case
	attributes map[string][]byte // by their path with dots
	metadata   map[string]any    // of filters

	expressions *Expressions   // of the configuration; see Use
	tree        map[string]any // what they see, once one has been evaluated
	failed      error          // why the last one had no value
}

var _ rule.Request = (*Request)(nil)

// NewRequest makes a request of a method and a URL.
func NewRequest(method, target string) (*Request, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not a URL (want one such as https://api.example.com/path?query)", target)
	}
	u.ForceQuery = false // "/path?" is "/path"
	return &Request{
		headers: [][2]string{
			{":method", method}, {":path", u.RequestURI()}, {":authority", u.Host}, {":scheme", u.Scheme},
		},
		attributes: map[string][]byte{},
	}, nil
}

// AddHeader adds a header, "name: value". A host header takes the URL's place.
func (r *Request) AddHeader(header string) error {
	name, value, ok := strings.Cut(header, ":")
	name = strings.ToLower(strings.TrimSpace(name))
	if !ok || name == "" {
		return fmt.Errorf("%q is not a header (want \"name: value\")", header)
	}
	value = strings.TrimSpace(value)
	if name == "host" {
		r.headers[2][1] = value
		return nil
	}
	if before, ok := r.Header(name); ok && name == "cookie" {
		value = before + "; " + value // all are one (RFC 9113, section 8.2.3)
		r.headers = slices.DeleteFunc(r.headers, func(h [2]string) bool { return h[0] == name })
	}
	r.headers = append(r.headers, [2]string{name, value})
	return nil
}

// SetClientIP sets the address that Envoy found to be the client's.
func (r *Request) SetClientIP(text string) error {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return fmt.Errorf("%q is not an IP address", text)
	}
	r.attributes["source.address"] = []byte(netip.AddrPortFrom(addr, 40000).String())
	return nil
}

// SetProperty sets an attribute of Envoy, "path.with.dots=value".
func (r *Request) SetProperty(text string) error {
	path, value, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return fmt.Errorf("%q is not a property (want such as connection.uri_san_peer_certificate=spiffe://...)", text)
	}
	r.attributes[path] = []byte(value)
	return nil
}

// SetMetadata sets the request's dynamic metadata, a JSON object by filters' names.
func (r *Request) SetMetadata(text string) error {
	if err := json.Unmarshal([]byte(text), &r.metadata); err != nil {
		return fmt.Errorf("the metadata is not a JSON object (want such as {\"envoy.filters.http.jwt_authn\": "+
			"{\"payload\": {\"sub\": \"alice\"}}}): %w", err)
	}
	return nil
}

// Header implements rule.Request.
func (r *Request) Header(name string) (string, bool) {
	for _, h := range r.headers {
		if h[0] == name {
			return h[1], true
		}
	}
	return "", false
}

// Fields implements rule.Request.
func (r *Request) Fields(m *rule.Matcher) {
	for _, h := range r.headers {
		m.Field(h[0], h[1])
	}
}

// Property implements rule.Request. It writes values as Envoy passes them.
func (r *Request) Property(path []string) ([]byte, bool) {
	if value, ok := r.attributes[strings.Join(path, ".")]; ok {
		return value, true
	}
	if len(path) < 3 || path[0] != "metadata" || path[1] != "filter_metadata" {
		return nil, false
	}
	var value any = r.metadata
	for _, step := range path[2:] {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		value = object[step]
	}
	switch value.(type) {
	case string, bool, float64:
		serialized, err := envoycel.Serialize(value)
		return serialized, err == nil
	}
	return nil, false
}

// Expressions compiles and evaluates CEL with google/cel-go, where Envoy has
// cel-cpp. docs/decisions/0013-expressions.md lists where the two differ.
type Expressions struct{ programs []*envoycel.Program }

var _ rule.Expressions = (*Expressions)(nil)

// Create implements rule.Expressions.
func (e *Expressions) Create(text string) (token uint32, err error) {
	program, err := envoycel.Compile(text)
	if err != nil {
		return 0, err
	}
	e.programs = append(e.programs, program)
	return uint32(len(e.programs) - 1), nil
}

// CheckExpression says in one line why a text does not compile.
func CheckExpression(text string) error {
	_, err := envoycel.Compile(text)
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	line, _, _ = strings.Cut(line, " expecting ")            // a list of all that the grammar has
	line = strings.TrimPrefix(line, "ERROR: <input>:-1:0: ") // of the whole text
	if where, ok := strings.CutPrefix(line, "ERROR: <input>:"); ok {
		line = "at " + where
	}
	return errors.New(line)
}

// Use has the request evaluate the expressions of a configuration.
func (r *Request) Use(e *Expressions) { r.expressions = e }

// Evaluate implements rule.Request. Without Use no expression has a value.
func (r *Request) Evaluate(token uint32) ([]byte, bool) {
	if r.expressions == nil {
		return nil, false
	}
	if r.tree == nil {
		tree := envoycel.Request(slices.Clone(r.headers))
		if r.metadata != nil {
			envoycel.Merge(tree, envoycel.Nested([]string{"metadata", "filter_metadata"}, r.metadata))
		}
		for path, value := range r.attributes {
			envoycel.Merge(tree, envoycel.Nested(strings.Split(path, "."), string(value)))
		}
		r.tree = tree
	}
	value, err := r.expressions.programs[token].Evaluate(r.tree)
	r.failed = err
	return value, err == nil
}

// valueless says why the last expression had no value; empty if it had one.
func (r *Request) valueless() string {
	if r.failed == nil {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.TrimPrefix(r.failed.Error(), envoycel.ErrEvaluation.Error()+": "))
}
