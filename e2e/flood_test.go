package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// pipelined is how many requests a connection of flood has under way: enough
// to leave the two cores to Envoy and Redis.
const pipelined = 16

// flood sends n requests, which request writes as HTTP/1.1, over some
// connections as fast as they are answered, and counts the answers.
func flood(t testing.TB, addr string, n, connections int, request func(i int) string) tally {
	t.Helper()
	var (
		mu    sync.Mutex
		total = tally{}
		group sync.WaitGroup
	)
	for c := range connections {
		conn, i, end := dial(t, addr), c*n/connections, (c+1)*n/connections
		group.Go(func() {
			answers := bufio.NewReader(conn)
			for i < end && !t.Failed() {
				batch, last := "", min(i+pipelined, end)
				for j := i; j < last; j++ {
					batch += request(j)
				}
				_, err := io.WriteString(conn, batch)
				testenv.SameError(t, "requests", errors.Join(err, conn.SetDeadline(time.Now().Add(patience))), nil)
				for ; i < last && !t.Failed(); i++ {
					resp, err := http.ReadResponse(answers, nil)
					if err != nil {
						t.Error(err)
						return
					}
					_, err = io.Copy(io.Discard, resp.Body)
					testenv.SameError(t, "an answer", err, nil)
					mu.Lock()
					total[resp.StatusCode]++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return total
}

// growthKB is how much more memory Envoy may hold after the flood: usually none,
// but what V8 and the allocator keep may vary. A leak of 25 bytes a request shows.
const growthKB = 1_000

// TestMemoryStaysFlat sends 40,000 requests: admitted ones of ever new
// identities, ones that hammer a rejected identity, and ones of which one rule's
// charge is given back as another rejects.
func TestMemoryStaysFlat(t *testing.T) {
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "10s"}, "failure": {"mode": "deny"}, `+bothHeaders+`"rules": [
		{"name": "new", "match": {"path": "/new"}, "key": [{"header": "x-user"}], "limits": [
			{"algorithm": "gcra", "limit": 5, "window": "1s"},
				{"algorithm": "sliding_window_counter", "limit": 100, "window": "1m"}]},
		{"name": "full", "match": {"path": {"prefix": "/full"}}, "key": [],
			"limits": [{"algorithm": "fixed_window", "limit": 1, `+long+`}]},
		{"name": "beside", "match": {"path": "/full/refund"}, "key": [{"header": "x-user"}], "limits": [
			{"algorithm": "token_bucket", "limit": 100, "window": "1s"}]}
	]}`, envoytest.Options{Quiet: true, Edit: func(c *envoyconf.Config) { // Envoy answers in the upstream's place
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/0/routes/0",
			c.Fragment(`{match: {prefix: "/"}, direct_response: {status: 200}}`))
	}})
	// Between two that are rejected from memory one waits: of pipelined requests that
	// are answered at once, Envoy takes the third for an attack.
	paths := []string{"/new", "/full", "/new", "/full/refund"}
	round := 0
	request := func(i int) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nhost: a\r\nx-user: user-%d-%d\r\n\r\n", paths[i%len(paths)], round, i)
	}
	const warmUp, count = 20_000, 40_000
	flood(t, s.Addr, warmUp, 8, request)
	before := s.ResidentKB()
	round++
	answers := flood(t, s.Addr, count, 8, request)
	after := s.ResidentKB()

	if answers[http.StatusOK] != count/2 {
		t.Errorf("%v; want %d of status 200", answers, count/2)
	}
	if answers[http.StatusTooManyRequests] != count/2 {
		t.Errorf("%v; want %d of status 429", answers, count/2)
	}
	t.Logf("%d KB after %d requests, %d KB after %d more", before, warmUp, after, count)
	if after-before > growthKB {
		t.Errorf("%d KB more after %d requests, want %d at most", after-before, count, growthKB)
	}
}
