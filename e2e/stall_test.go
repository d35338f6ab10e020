package e2e

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/worstcase"
)

// TestNoRequestStallsAWorker sends the worst requests one after the other, and
// compares how long they take with one of the same size that no rule looks at.
func TestNoRequestStallsAWorker(t *testing.T) {
	const limit = 2 * time.Millisecond
	cases := worstcase.Cases()
	beside := map[string]string{}
	for _, c := range cases {
		beside[c.Name] = c.Config()
	}
	byDefault := func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/max_request_headers_kb", 60) }
	e := start(t, cases[0].Config(), envoytest.Options{
		Redis: []string{}, Beside: beside, Workers: 1, Quiet: true, Edit: byDefault,
	})
	plain := fastest(t, e.Beside[worstcase.Unread], worstcase.Unread)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			took := fastest(t, e.Beside[c.Name], c.Name)
			t.Logf("%v more than the %v of a request that no rule looks at", took-plain, plain)
			if took-plain > limit {
				t.Errorf("takes %v longer than a request that no rule looks at, want at most %v", took-plain, limit)
			}
		})
	}
}

// fastest is the least time that a request of a worst case takes.
func fastest(t *testing.T, url, name string) time.Duration {
	t.Helper()
	cases := worstcase.Cases()
	c := cases[slices.IndexFunc(cases, func(c worstcase.Case) bool { return c.Name == name })]
	return least(t, url, c.Headers)
}

// least is the least time that a request takes, of many: the others had to wait for a
// busy machine.
func least(t *testing.T, url string, headers [][2]string) time.Duration {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	least := time.Hour
	for range 60 {
		req := newRequest(t, url, headers)
		began := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, want 200", url, resp.StatusCode)
		}
		least = min(least, time.Since(began))
	}
	return least
}

// newRequest is a request with pseudo headers among its headers.
func newRequest(t *testing.T, url string, headers [][2]string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		switch h[0] {
		case ":method", ":scheme":
		case ":authority":
			req.Host = h[1]
		case ":path":
			req.URL.Opaque = h[1]
		default:
			req.Header.Set(h[0], h[1])
		}
	}
	return req
}
