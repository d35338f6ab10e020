package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// patience bounds any one request of the tests: what takes longer is stuck.
const patience = 20 * time.Second

// reply is an answer with its body.
type reply struct {
	status int
	header http.Header
	body   string
}

// client keeps as many connections open as the tests' largest parallelism.
func newClient() *http.Client {
	return &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

var shared = newClient()

// get requests a URL with headers written as "name: value"; ":method", ":path" and ":body" set
// these, and a repeated name adds a value.
func get(t testing.TB, url string, headers ...string) reply {
	t.Helper()
	r, err := send(context.Background(), shared, url, headers...)
	testenv.OK(t, err)
	return r
}

func send(ctx context.Context, client *http.Client, url string, headers ...string) (reply, error) {
	req, err := newRequest(ctx, url, headers...)
	if err != nil {
		return reply{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}, err
}

func newRequest(ctx context.Context, url string, headers ...string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header["User-Agent"] = nil // in place of Go's
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ": ")
		switch {
		case !ok:
			return nil, fmt.Errorf("header %q: want \"name: value\"", h)
		case name == ":method":
			req.Method = value
		case name == ":path":
			req.URL.Opaque = value
		case name == ":body":
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(value)), int64(len(value))
		case strings.EqualFold(name, "host"):
			req.Host = value
		default:
			req.Header.Add(name, value)
		}
	}
	return req, nil
}

// tally counts answers by status; key 0 is for requests without an answer.
type tally map[int]int

// expectTally compares the answers of a burst with those wanted.
func expectTally(t testing.TB, what string, got, want tally) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// burst sends n requests over a number of parallel connections, spread over the
// URLs, and counts the answers. A request without an answer fails the test.
func burst(t testing.TB, n, parallel int, urls []string, headers ...string) tally {
	t.Helper()
	var (
		next  atomic.Int64
		mu    sync.Mutex
		total = tally{}
		group sync.WaitGroup
	)
	for range parallel {
		group.Go(func() {
			client := newClient() // connections of its own, spread over the workers
			defer client.CloseIdleConnections()
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				r, err := send(context.Background(), client, urls[int(i)%len(urls)], headers...)
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				mu.Lock()
				total[r.status]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return total
}
