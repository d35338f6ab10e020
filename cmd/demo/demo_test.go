package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// running is a demo that has explained itself.
type running struct {
	*demo

	output string // file
	url    string // that it says to try
	stop   func() error
}

// start runs the demo at ports of the test's own in place of the documented ones, but for one that is taken, if any.
func start(t *testing.T, store string, taken int) *running {
	t.Helper()
	t.Chdir(testenv.Root(t))
	testenv.WasmPath(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	testenv.OK(t, err)
	p := ports{testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t), testenv.FreePort(t)}
	p.admin = cmp.Or(taken, p.admin)
	r := &running{demo: &demo{out: out, store: store, ports: p}, output: out.Name()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	r.stop = func() error { cancel(); return <-done }
	tries := regexp.MustCompile(`(http://\S+)/api/orders`)
	testenv.Wait(t, startLimit, func() error {
		printed := testenv.Read(t, r.output)
		select {
		case err := <-done:
			t.Fatalf("the demo has ended: %v\n%s", err, printed)
		default:
		}
		found := tries.FindSubmatch(printed)
		if found == nil {
			return fmt.Errorf("nothing to try in %q", printed)
		}
		r.url = string(found[1])
		return nil
	})
	return r
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
			other, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			taken := other.Addr().(*net.TCPAddr).Port
			d := start(t, store, taken)
			testenv.Wait(t, startLimit, func() error { // Redis may be slow at first
				resp, _, err := testenv.Send(http.MethodGet, d.url+"/api/other", "", "x-api-key: alice")
				testenv.OK(t, err)
				if limit := resp.Header.Get("x-ratelimit-limit"); limit != "5" {
					return fmt.Errorf("a limit of %q, want 5", limit)
				}
				return nil
			})
			testenv.Wait(t, startLimit, func() error { // as fast as the limit of one a second forgets
				resp, _, err := testenv.Send(http.MethodGet, d.url+"/api/orders", "", "x-api-key: alice")
				testenv.OK(t, err)
				if resp.StatusCode != http.StatusTooManyRequests {
					return fmt.Errorf("status %d, want 429", resp.StatusCode)
				}
				testenv.Same(t, "retry-after", resp.Header.Get("retry-after"), "1")
				return nil
			})
			for _, want := range []string{
				"GET /api/orders 200 allowed", "GET /api/orders 429 limited:per-key",
				fmt.Sprintf("port %d is taken: Envoy's admin is on %d instead\n", taken, d.ports.admin),
			} {
				testenv.Wait(t, startLimit, func() error {
					if out := testenv.Read(t, d.output); !strings.Contains(string(out), want) {
						return fmt.Errorf("no %q in %s", want, out)
					}
					return nil
				})
			}
			if err := d.stop(); err != nil {
				t.Errorf("ended with %v", err)
			}
			expectEnded(t, d.ports)
		})
	}
}

// TestDeathIsReported: with the last the child has printed, and the others end.
func TestDeathIsReported(t *testing.T) {
	d := start(t, "", 0)
	d.children[0].Kill()
	select {
	case <-d.children[1].Exited():
	case <-time.After(startLimit):
		t.Error("envoy still runs")
	}
	err := d.stop()
	for _, want := range []string{"redis-server has died (signal: killed)", "Ready to accept connections"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ended with %v, want an end with %q", err, want)
		}
	}
	expectEnded(t, d.ports)
}

func TestMissingPlugin(t *testing.T) {
	t.Chdir(t.TempDir())
	d := &demo{out: io.Discard, ports: documented}
	if err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "make run") {
		t.Errorf("%v, want what to do", err)
	}
}

func TestUnknownStore(t *testing.T) {
	t.Parallel()
	d := &demo{out: io.Discard, store: "disk"}
	if err := d.run(t.Context()); err == nil || !strings.Contains(err.Error(), "STORE=disk: want local") {
		t.Errorf("%v, want one about STORE", err)
	}
}
