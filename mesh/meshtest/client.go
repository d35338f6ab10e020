// Package meshtest has the parts that tests of deploy/ on control planes share: the
// files as kubectl applies them, and requests to the Envoys they configure.
package meshtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
	Status     int
	Limit      string // X-RateLimit-Limit
	RetryAfter string
}

// Get sends a request; header has names and values in turn.
func (c *Client) Get(header ...string) (Answer, error) {
	request, err := http.NewRequest(http.MethodGet, c.URL, nil)
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return Answer{}, err
	}
	return Answer{resp.StatusCode, resp.Header.Get("X-RateLimit-Limit"), resp.Header.Get("Retry-After")}, nil
}

// hostile is a request that may be read in two ways, or is large, and what becomes of it
// where Envoy is strict.
type hostile struct {
	name, path, header, value string
	status                    int
	location                  string
}

var hostiles = []hostile{
	{
		name: "escaped slashes, dot segments, repeated slashes", path: "/a%2f..%2f/b", status: http.StatusTemporaryRedirect,
		location: "/b",
	},
	{name: "a header with an underscore", path: "/", header: "X_Api_Key", value: "a", status: http.StatusBadRequest},
	{
		name: "20 KB of cookies", path: "/", header: "Cookie", value: strings.Repeat("c=d; ", 4096),
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
	status, location, err := c.raw(want.path, want.header, want.value)
	if err != nil {
		c.T.Errorf("%s: %v", want.name, err)
	}
	if status != want.status {
		c.T.Errorf("%s: status %d, want %d", want.name, status, want.status)
	}
	if location != want.location {
		c.T.Errorf("%s: location %q, want %q", want.name, location, want.location)
	}
}

// raw sends a request whose path and header stay as they are, and follows no
// redirect.
func (c *Client) raw(path, header, value string) (status int, location string, err error) {
	request, err := http.NewRequest(http.MethodGet, c.URL+path, nil)
	if err != nil {
		return 0, "", err
	}
	if header != "" {
		request.Header[header] = []string{value}
	}
	resp, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, resp.Header.Get("Location"), resp.Body.Close()
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

// AwaitRejection sends requests until one is rejected, and returns its answer.
func (c *Client) AwaitRejection() Answer {
	c.T.Helper()
	var last Answer
	testenv.Wait(c.T, Patience, func() (err error) {
		last, err = c.Get()
		if err == nil && last.Status != http.StatusTooManyRequests {
			err = errors.New("not rejected")
		}
		return err
	})
	return last
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
