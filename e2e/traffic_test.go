package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// bodies: a request that waits for Redis loses nothing of its body, nor its
// trailers, and one that is rejected is answered though its body was never read. What comes of a body
// while its request is held in a queue, more than Envoy's buffers take, holds the client back and is not lost.
var bodies = plain{
	name: "bodies",
	config: `{"rules": [
		{"name": "bodies", "match": {"path": "/"}, "key": [{"header": "x-user"}], ` + oneLimit + `},
		{"name": "bodies-queue", "match": {"path": "/queue"}, "limits": [
			{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "700ms", "burst": 3}]}]}`,
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body) // whole: HTTP/1 servers of Go read no more once they write
			if err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
			if r.URL.Path == "/queue" {
				fmt.Fprint(w, len(body))
				return
			}
			_, _ = w.Write(body)
		}))
		for _, size := range []int{0, 1, 100_000, 3_000_000} {
			body := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
				chunked := io.MultiReader(bytes.NewReader(body))
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, chunked)
				testenv.OK(t, err)
				req.Header.Set("X-User", fmt.Sprint(size))
				resp, err := shared.Do(req)
				testenv.OK(t, err)
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != want {
					t.Errorf("%d bytes: status %d, %v; want %d", size, resp.StatusCode, err, want)
				}
				if want == http.StatusOK && !bytes.Equal(got, body) {
					t.Errorf("%d bytes came back as %d others", size, len(got))
				}
			}
		}
		get(t, s.URL+"/queue")
		const size = 5_000_000
		resp, err := shared.Post(s.URL+"/queue", "application/octet-stream", bytes.NewReader(make([]byte, size)))
		testenv.OK(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		testenv.SameError(t, "the answer to a body in the queue", err, nil)
		testenv.Same(t, "how much of it the upstream got", string(body), fmt.Sprint(size))
	},
}

// TestStopWhileWaiting: Envoy ends in good order while requests wait for Redis and
// in a queue.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "1m"}, "rules": [
		{"name": "wait", "match": {"path": "/wait"}, `+oneLimit+`},
		{"name": "queue", "match": {"path": "/queue"}, "limits": [
			{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "1m", "max_delay": "1h", "burst": 9}]}]}`,
		envoytest.Options{Redis: []string{server.Addr}})
	client := newClient()
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	defer group.Wait()
	hold := func(path string, n int) {
		for range n {
			group.Go(func() { _, _ = send(ctx, client, s.URL+path) }) // it ends with Envoy
		}
	}
	get(t, s.URL+"/queue")
	hold("/queue", 4)
	awaitActive(t, s, 4)
	server.Signal(syscall.SIGSTOP)
	hold("/wait", 5)
	awaitActive(t, s, 9)
	s.Stop()
}

// headersOnAnswersOfEnvoy: the limit headers are on every answer, also where
// Envoy answers in the upstream's place.
var headersOnAnswersOfEnvoy = plain{
	name: "headers on answers of Envoy",
	config: `{` + bothHeaders + `"rules": [
		{"name": "r", "limits": [{"algorithm": "gcra", "limit": 10, "window": "1h"}]}]}`,
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
		c.Append("static_resources/clusters", c.Fragment(`{name: nobody, type: STATIC}`))
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes/0/route", c.Fragment(`{cluster: nobody}`))
	},
	play: func(t *testing.T, s *setting) {
		r := get(t, s.URL)
		testenv.Same(t, "status", r.status, http.StatusServiceUnavailable)
		if contentType := r.header.Get("content-type"); strings.Contains(contentType, "problem") {
			t.Errorf("content-type %q, want that of Envoy's own 503", contentType)
		}
		expectHeaders(t, r, map[string]string{"x-ratelimit-remaining": "9", "ratelimit": `"r";r=9;t=3240`, "retry-after": ""})
	},
}

// manyStreams: many streams of one connection wait at once, and each gets its own
// decision.
var manyStreams = plain{
	name: "many streams of HTTP2",
	config: `{"rules": [{"name": "r", "key": [{"query": "u"}],
		"limits": [{"algorithm": "gcra", "limit": 40, ` + long + `}]}]}`,
	play: func(t *testing.T, s *setting) {
		client := &http.Client{Timeout: patience, Transport: http2()}
		defer client.CloseIdleConnections()
		statuses := make(chan int, 90)
		for range cap(statuses) {
			go func() {
				r, err := send(ctx, client, s.URL+"/?u=a")
				if err != nil {
					t.Error(err)
				}
				statuses <- r.status
			}()
		}
		got := tally{}
		for range cap(statuses) {
			got[<-statuses]++
		}
		expectTally(t, "all requests", got, tally{http.StatusOK: 40, http.StatusTooManyRequests: 50})
	},
}
