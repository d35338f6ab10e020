package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// screen is the output of the demo.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// freePorts are ports of the test's own in place of the documented ones.
func freePorts(t *testing.T) ports {
	return ports{testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t)}
}

// started runs the demo until it has explained itself, and returns the URL that
// it says to try. stop ends it and returns what run returned.
func started(t *testing.T, d *demo, out *screen) (url string, stop func() error) {
	t.Helper()
	t.Chdir(testenv.Root(t))
	testenv.WasmPath(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	tries := regexp.MustCompile(`(http://\S+)/api/orders`)
	testenv.Wait(t, startLimit, func() error {
		select {
		case err := <-done:
			t.Fatalf("the demo has ended: %v\n%s", err, out)
		default:
		}
		found := tries.FindStringSubmatch(out.String())
		if found == nil {
			return fmt.Errorf("nothing to try in %q", out)
		}
		url = found[1]
		return nil
	})
	return url, func() error { cancel(); return <-done }
}

func status(t *testing.T, url string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", "alice")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// expectEnded wants that nothing listens any more where the demo did.
func expectEnded(t *testing.T, p ports) {
	t.Helper()
	for _, port := range []int{p.listener, p.admin, p.upstream, p.redis} {
		if c, err := net.Dial("tcp", addr(port)); err == nil {
			c.Close()
			t.Errorf("something still listens at %d", port)
		}
	}
}

// TestDemo does what the demo says to try. What listens on a port that it would take is left alone, and said.
func TestDemo(t *testing.T) {
	for _, store := range []string{"", "local"} {
		t.Run("STORE="+store, func(t *testing.T) {
			out := new(screen)
			d := &demo{out: out, store: store, ports: freePorts(t)}
			other, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			taken := other.Addr().(*net.TCPAddr).Port
			d.ports.admin = taken
			url, stop := started(t, d, out)
			testenv.Wait(t, startLimit, func() error { // Redis may be slow at first
				_, header := status(t, url+"/api/other")
				if limit := header.Get("x-ratelimit-limit"); limit != "5" {
					return fmt.Errorf("a limit of %q, want 5", limit)
				}
				return nil
			})
			testenv.Wait(t, startLimit, func() error { // as fast as the limit of one a second forgets
				code, header := status(t, url+"/api/orders")
				if code != http.StatusTooManyRequests {
					return fmt.Errorf("status %d, want 429", code)
				}
				testenv.Same(t, "retry-after", header.Get("retry-after"), "1")
				return nil
			})
			for _, want := range []string{
				"GET /api/orders 200 allowed", "GET /api/orders 429 limited:per-key",
				fmt.Sprintf("port %d is taken: Envoy's admin is on %d instead\n", taken, d.ports.admin),
			} {
				testenv.Wait(t, startLimit, func() error {
					if !strings.Contains(out.String(), want) {
						return fmt.Errorf("no %q in %s", want, out)
					}
					return nil
				})
			}
			if err := stop(); err != nil {
				t.Errorf("ended with %v", err)
			}
			expectEnded(t, d.ports)
		})
	}
}

// TestDeathIsReported: with the last the child has printed, and the others end.
func TestDeathIsReported(t *testing.T) {
	out := new(screen)
	d := &demo{out: out, ports: freePorts(t)}
	_, stop := started(t, d, out)
	d.children[0].Kill()
	select {
	case <-d.children[1].Exited():
	case <-time.After(startLimit):
		t.Error("envoy still runs")
	}
	err := stop()
	for _, want := range []string{"redis-server has died (signal: killed)", "Ready to accept connections"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ended with %v, want an end with %q", err, want)
		}
	}
	expectEnded(t, d.ports)
}

func TestMissingPlugin(t *testing.T) {
	t.Chdir(t.TempDir())
	d := &demo{out: new(screen), ports: documented}
	if err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "make run") {
		t.Errorf("%v, want what to do", err)
	}
}

func TestUnknownStore(t *testing.T) {
	t.Parallel()
	d := &demo{out: new(screen), store: "disk"}
	if err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "STORE=disk: want local") {
		t.Errorf("%v, want one about STORE", err)
	}
}
