// Package meshtest is what the tests of deploy/ on control planes share: the
// files as kubectl applies them, and requests to the Envoys they configure.
package meshtest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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

// Answer is what matters of a response.
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
