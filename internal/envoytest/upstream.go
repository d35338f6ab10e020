package envoytest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Upstream is an HTTP server behind Envoy that keeps the headers of the
// requests that came through.
type Upstream struct {
	Addr string

	mu       sync.Mutex
	handler  http.Handler
	count    int
	requests []*http.Request // without bodies
}

// keptRequests bounds how many requests an upstream keeps; it counts all.
const keptRequests = 10_000

// NewUpstream starts an upstream. A nil handler answers 200 and "ok".
func NewUpstream(t testing.TB, handler http.Handler) *Upstream {
	t.Helper()
	if handler == nil {
		handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	}
	u := &Upstream{handler: handler}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.record(r).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	u.Addr = strings.TrimPrefix(server.URL, "http://")
	return u
}

// Handle has another handler answer the requests from now on.
func (u *Upstream) Handle(handler http.Handler) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.handler = handler
}

// record notes a request, and returns who answers it.
func (u *Upstream) record(r *http.Request) http.Handler {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count++
	if len(u.requests) < keptRequests {
		kept := r.Clone(r.Context())
		kept.Body = nil
		u.requests = append(u.requests, kept)
	}
	return u.handler
}

// Count returns how many requests have come.
func (u *Upstream) Count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count
}

// Requests returns the requests that have come, in order.
func (u *Upstream) Requests() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*http.Request(nil), u.requests...)
}
