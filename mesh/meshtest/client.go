// Package meshtest has the parts that tests of deploy/ on control planes share: the
// files as kubectl applies them, and requests to the Envoys they configure.
package meshtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Patience bounds waits; a loaded machine may take long to compile the plugin.
const Patience = 60 * time.Second

// Client sends requests to one Envoy, each of which costs nothing unless the
// rules there say otherwise.
type Client struct {
	T   *testing.T
	URL string
}

// Answer has the parts of a response that matter.
type Answer struct {
	Status   int
	Limit    string // X-RateLimit-Limit
	Location string
}

// Get sends a request; header has names and values in turn.
func (c *Client) Get(header ...string) (Answer, error) {
	return c.send("", header...)
}

// send sends a request whose path and headers stay as they are, and follows no redirect.
func (c *Client) send(path string, header ...string) (Answer, error) {
	request, err := http.NewRequest(http.MethodGet, c.URL+path, nil)
	if err != nil {
		return Answer{}, err
	}
	for pair := range slices.Chunk(header, 2) {
		request.Header[pair[0]] = pair[1:]
	}
	resp, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return Answer{}, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	answer := Answer{resp.StatusCode, resp.Header.Get("X-RateLimit-Limit"), resp.Header.Get("Location")}
	return answer, errors.Join(err, resp.Body.Close())
}

// hostile is a request that may be read in two ways, or is large, and what becomes of it
// where Envoy is strict.
type hostile struct {
	name, path string
	header     []string
	status     int
	location   string
}

var hostiles = []hostile{
	{
		name: "escaped slashes, dot segments, repeated slashes", path: "/a%2f..%2f/b", status: http.StatusTemporaryRedirect,
		location: "/b",
	},
	{name: "a header with an underscore", path: "/", header: []string{"X_Api_Key", "a"}, status: http.StatusBadRequest},
	{
		name: "20 KB of cookies", path: "/", header: []string{"Cookie", strings.Repeat("c=d; ", 4096)},
		status: http.StatusRequestHeaderFieldsTooLarge,
	},
}

// ExpectStrict wants Envoy to take no request that it and the rules, or the
// upstream, might read in two ways.
func (c *Client) ExpectStrict() {
	c.T.Helper()
	for _, h := range hostiles[:2] {
		c.expect(h)
	}
}

// ExpectUntouched wants Envoy to take them all, as it does where nothing but Sluice was added.
func (c *Client) ExpectUntouched() {
	c.T.Helper()
	for _, h := range hostiles {
		h.status, h.location = http.StatusOK, ""
		c.expect(h)
	}
}

func (c *Client) expect(want hostile) {
	c.T.Helper()
	got, err := c.send(want.path, want.header...)
	if err != nil {
		c.T.Errorf("%s: %v", want.name, err)
	}
	testenv.Same(c.T, want.name+": the status", got.Status, want.status)
	testenv.Same(c.T, want.name+": the location", got.Location, want.location)
}

// AwaitLimit waits for Envoy to limit by a capacity.
func (c *Client) AwaitLimit(capacity string) {
	c.T.Helper()
	testenv.Wait(c.T, Patience, func() error {
		a, err := c.Get()
		if err == nil && (a.Status != http.StatusOK && a.Status != http.StatusTooManyRequests || a.Limit != capacity) {
			err = fmt.Errorf("status %d, limit %q; want limit %q", a.Status, a.Limit, capacity)
		}
		return err
	})
}

// Load sends requests that cost nothing, two at a time, until the returned
// function is called; each must be answered with 200.
func (c *Client) Load() (stop func()) {
	var clients sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if a, err := c.Get(); err != nil || a.Status != http.StatusOK {
					c.T.Errorf("a request was lost: status %d, %v", a.Status, err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(done); clients.Wait() })
}
