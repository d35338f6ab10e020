package rule

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// request is a Request of headers in order and of attributes named by their path
// with dots. It counts what is read of it.
type request struct {
	headers    [][2]string
	properties map[string]string
	values     map[string]string // of expressions, by their wrapped text

	mu    sync.Mutex
	reads map[string]int
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
	name := strings.Join(path, ".")
	r.count(name)
	value, ok := r.properties[name]
	return []byte(value), ok
}

func (r *request) Evaluate(token uint32) ([]byte, bool) {
	text := textOf(token)
	r.count(text)
	value, ok := r.values[text]
	return []byte(value), ok
}

// texts are the expressions of all tests: a token is an index.
var texts struct {
	sync.Mutex

	list []string
}

func register(text string) (token uint32) {
	texts.Lock()
	defer texts.Unlock()
	texts.list = append(texts.list, text)
	return uint32(len(texts.list) - 1)
}

func textOf(token uint32) string {
	texts.Lock()
	defer texts.Unlock()
	return texts.list[token]
}

// fakeExpressions compiles whatever does not say that it is bad.
type fakeExpressions struct{ created []string }

func (e *fakeExpressions) Create(text string) (uint32, error) {
	if strings.Contains(text, "bad") {
		return 0, errors.New("it is bad")
	}
	e.created = append(e.created, text)
	return register(text), nil
}

func (r *request) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reads == nil {
		r.reads = map[string]int{}
	}
	r.reads[name]++
}

// get is a GET of a target on a host, with more headers as name, value, ...
func get(target string, more ...string) *request {
	r := &request{headers: [][2]string{{":method", "GET"}, {":path", target}, {":authority", "api.example.com"}}}
	for i := 0; i < len(more); i += 2 {
		r.headers = append(r.headers, [2]string{more[i], more[i+1]})
	}
	return r
}

// perSecond is a limit of n per second.
func perSecond(n int64) []config.Limit {
	return []config.Limit{{
		Limit:  algo.Limit{Algorithm: algo.GCRA, Units: n, WindowMicros: 1e6},
		Name:   "p",
		Window: "1s",
	}}
}

// counted is a rule for all requests, at a cost of 1.
func counted(name string, key ...config.Component) config.Rule {
	return config.Rule{Name: name, Key: key, Cost: config.Amount{Default: 1, Max: algo.MaxCost}, Limits: perSecond(10)}
}

func compile(t testing.TB, rules ...config.Rule) *Set {
	t.Helper()
	set, err := Compile(&config.Config{Rules: rules}, &fakeExpressions{})
	if err != nil {
		t.Fatal(err)
	}
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
func only(t testing.TB, r config.Rule, req Request) Applied {
	t.Helper()
	var m Matcher
	applied, _, _ := compile(t, r).Apply(req, &m)
	if len(applied) != 1 {
		t.Fatalf("%d rules apply, want 1", len(applied))
	}
	return applied[0]
}
