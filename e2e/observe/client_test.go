package observe

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/promtest"
)

// client sends requests over connections of its own, and counts the answers by
// their status.
type client struct {
	t    testing.TB
	http *http.Client

	mu      sync.Mutex
	answers map[int]int
}

func newClient(t testing.TB) *client {
	c := &client{
		t:       t,
		http:    &http.Client{Timeout: promtest.Limit, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		answers: map[int]int{},
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// get requests a URL with headers, names and values, and returns the status.
func (c *client) get(url string, headers ...string) int {
	c.t.Helper()
	status, err := c.send(context.Background(), url, headers...)
	if err != nil {
		c.t.Error(err)
	}
	return status
}

func (c *client) send(ctx context.Context, url string, headers ...string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[resp.StatusCode]++
	return resp.StatusCode, nil
}

// at once sends n requests in parallel.
func (c *client) atOnce(n int, url string, headers ...string) {
	var group sync.WaitGroup
	for range n {
		group.Go(func() { c.get(url, headers...) })
	}
	group.Wait()
}

// users of the load: the more they send, the more they are rejected.
var users = [...]string{"ann", "bob", "cid", "dan", "eva", "fay"}

// load sends requests to the URLs, one after the other with a short pause, as
// users of whom some send more, until the context is done.
func (c *client) load(ctx context.Context, urls ...string) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.3, 1, uint64(len(users)-1))
	tick := time.NewTicker(8 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.get(urls[i%len(urls)], "x-user", users[zipf.Uint64()])
		}
	}
}
