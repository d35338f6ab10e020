package rule

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// request is a Request of headers in order, and of attributes. Reading it allocates nothing, unless it
// counts what is read.
type request struct {
	headers    [][2]string
	attributes attributes
	reads      map[string]int // nil: they are not counted
}

// attributes have names with dots, or the wrapped text of an expression.
type attributes map[string][]byte

func (a attributes) Evaluate(token uint32) ([]byte, bool) {
	for text, value := range a {
		if tokenOf(text) == token {
			return value, true
		}
	}
	return nil, false
}

func (r *request) count(name string) {
	if r.reads != nil {
		r.reads[name]++
	}
}

func (r *request) Header(name string) (string, bool) {
	r.count(name)
	for _, h := range r.headers {
		if h[0] == name {
			return h[1], true
		}
	}
	return "", false
}

func (r *request) Fields(m *Matcher) {
	r.count("fields")
	for _, h := range r.headers {
		m.Field(h[0], h[1])
	}
}

func (r *request) Property(path []string) ([]byte, bool) {
	var buffer [128]byte
	name := append(buffer[:0], path[0]...)
	for _, part := range path[1:] {
		name = append(append(name, '.'), part...)
	}
	if r.reads != nil {
		r.count(string(name))
	}
	value, ok := r.attributes[string(name)]
	return value, ok
}

func (r *request) Evaluate(token uint32) ([]byte, bool) {
	if r.reads != nil {
		r.count(fmt.Sprint(token))
	}
	return r.attributes.Evaluate(token)
}

func tokenOf(text string) uint32 { return crc32.ChecksumIEEE([]byte(text)) }

// fakeExpressions compiles whatever does not say that it is bad.
type fakeExpressions struct{ created []string }

func (e *fakeExpressions) Create(text string) (uint32, error) {
	if strings.Contains(text, "bad") {
		return 0, errors.New("it is bad")
	}
	e.created = append(e.created, text)
	return tokenOf(text), nil
}

// get is a GET of a target on a host, with more as name, value, ...: a pseudo header has another value,
// names with a dot or a parenthesis are attributes, and others are headers.
func get(target string, more ...string) *request {
	r := &request{
		headers:    [][2]string{{":method", "GET"}, {":path", target}, {":authority", "api.example.com"}},
		attributes: attributes{},
	}
	for pair := range slices.Chunk(more, 2) {
		name, value := pair[0], pair[1]
		switch at := slices.IndexFunc(r.headers[:3], func(h [2]string) bool { return h[0] == name }); {
		case at >= 0:
			r.headers[at][1] = value
		case strings.ContainsAny(name, ".("):
			r.attributes[name] = []byte(value)
		default:
			r.headers = append(r.headers, [2]string{name, value})
		}
	}
	return r
}

// parse reads rules, each of the fields that follow. One without a name in front is "r", and one without
// limits has tenASecond.
func parse(t testing.TB, rules ...string) *config.Config {
	t.Helper()
	var all []string
	for _, fields := range rules {
		if !strings.HasPrefix(fields, `"name": `) {
			fields = `"name": "r", ` + fields
		}
		if !strings.Contains(fields, `"limits`) && !strings.Contains(fields, `"exempt"`) {
			fields = strings.TrimSuffix(fields, ", ") + ", " + tenASecond
		}
		all = append(all, "{"+fields+"}")
	}
	cfg, err := config.Parse([]byte(`{"rules": [` + strings.Join(all, ", ") + `]}`))
	testenv.OK(t, err)
	return cfg
}

const tenASecond = `"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]`

func compile(t testing.TB, rules ...string) *Set {
	t.Helper()
	set, err := Compile(parse(t, rules...), &fakeExpressions{})
	testenv.OK(t, err)
	return set
}

// tags are the tags of what applies to a request.
func tags(s *Set, req Request) []string {
	var m Matcher
	applied, _, _ := s.Apply(req, &m)
	var list []string
	for _, a := range applied {
		list = append(list, string(a.Tag))
	}
	return list
}

// only is the one rule of a set that applies to a request.
func only(t testing.TB, rule string, req Request) Applied {
	t.Helper()
	var m Matcher
	applied, _, _ := compile(t, rule).Apply(req, &m)
	if len(applied) != 1 {
		t.Fatalf("%d rules apply, want 1", len(applied))
	}
	return applied[0]
}
