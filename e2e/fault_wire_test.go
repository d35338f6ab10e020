package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

var errCut = errors.New("the wire is cut")

// TestRepliesFail: what does not arrive, or not as Redis said it, decides nothing.
func TestRepliesFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := newWire(t, server.Addr, nil)
	o := launchOutage(t, outageTimeout, envoytest.Options{Redis: []string{w.addr}})
	o.client = server.Client()
	o.await(50)
	o.expectDecided()
	for name, f := range map[string]fault{
		"dropped": func(io.Writer, []byte) error { return nil },
		"cut":     func(io.Writer, []byte) error { return errCut },
		"delayed": func(to io.Writer, piece []byte) error {
			time.Sleep(4 * outageTimeout) // a slow network
			return pass(to, piece)
		},
		"garbage": func(to io.Writer, piece []byte) error {
			noise := make([]byte, len(piece))
			for i := range noise {
				noise[i] = byte(rand.Uint32())
			}
			return pass(to, noise)
		},
		"other protocol": func(to io.Writer, _ []byte) error {
			return pass(to, []byte("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"))
		},
		"huge length": func(to io.Writer, _ []byte) error {
			return pass(to, []byte("$9223372036854775807\r\n"))
		},
		"huge array": func(to io.Writer, _ []byte) error { return pass(to, []byte("*2147483647\r\n:1\r\n")) },
		"deep array": func(to io.Writer, _ []byte) error {
			return pass(to, bytes.Repeat([]byte("*1\r\n"), 10_000))
		},
		"endless line": func(to io.Writer, _ []byte) error {
			return pass(to, append([]byte("+"), bytes.Repeat([]byte("x"), 100_000)...))
		},
		"wrong shape": func(to io.Writer, _ []byte) error {
			return pass(to, []byte("*2\r\n:1\r\n$1\r\nx\r\n"))
		},
		"an error":        func(to io.Writer, _ []byte) error { return pass(to, []byte("-ERR no\r\n")) },
		"a nil":           func(to io.Writer, _ []byte) error { return pass(to, []byte("$-1\r\n")) },
		"an empty string": func(to io.Writer, _ []byte) error { return pass(to, []byte("$0\r\n\r\n")) },
	} {
		t.Log(name) // the last one is what has failed
		w.set(f)
		w.cut() // a reply that was late before the fault must not be taken for one after it
		o.expectModes()
		o.reload()
		o.expectModes()
		w.set(pass)
		if envoytest.ThroughRelay {
			w.cut() // redis_proxy goes by the order of replies, also after some are missing
		}
		o.expectDecided()
	}
	o.finish()
}

// repliesCutAtEachByte: a reply that comes byte by byte is a reply. After each byte of one the connection ends:
// the request fails, the next is decided, on a new connection and with its own reply.
var repliesCutAtEachByte = plain{
	name: "replies cut at each byte",
	config: `{"redis": {"cluster": "redis", "timeout": "10s"},
		"failure": {"mode": "deny", "breaker": {"failures": 1000000, "min_open": "1ms", "max_open": "1ms"}},
		"rules": [{"name": "r", "key": [{"query": "u"}], "limits": [{"algorithm": "gcra", "limit": 50, ` + long + `}]}]}`,
	worker: true,
	own: func(t *testing.T, s *setting) string {
		s.redis = redistest.Start(t)
		s.wire = newWire(t, s.redis.Addr, nil)
		return s.wire.addr
	},
	play: func(t *testing.T, s *setting) {
		w := s.wire
		w.set(func(to io.Writer, piece []byte) error {
			for i := range piece {
				if err := pass(to, piece[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		})
		got := burst(t, 60, 16, []string{s.URL + "/?u=pieces"}) // the script is known from here on
		expectTally(t, "60 requests", got, tally{http.StatusOK: 50, http.StatusTooManyRequests: 10})
		w.set(pass)
		awaitTrial(t, s) // and nothing else is under way
		before := w.passed.Load()
		get(t, s.URL+"/?u=second")
		length := int(w.passed.Load() - before)
		if length < 10 {
			t.Fatalf("a reply of %d bytes", length)
		}
		for n := range length {
			w.set(pass)
			w.cut()
			awaitStatus(t, s, fmt.Sprintf("/?u=heal-%d", n), http.StatusOK)
			w.set(func(to io.Writer, piece []byte) error {
				_ = pass(to, piece[:min(n, len(piece))])
				return errCut
			})
			if r := get(t, fmt.Sprintf("%s/?u=cut-%d", s.URL, n)); r.status != http.StatusServiceUnavailable {
				t.Errorf("cut after %d bytes of %d: status %d, want 503", n, length, r.status)
			}
		}
		w.set(pass)
		awaitStatus(t, s, "/?u=last", http.StatusOK)
		for n := range length { // each was charged once, whatever became of the reply
			r := get(t, fmt.Sprintf("%s/?u=cut-%d", s.URL, n))
			if got := r.header.Get("x-ratelimit-remaining"); got != "48" {
				t.Errorf("after a cut at byte %d: %s remaining, want 48", n, got)
			}
		}
	},
}

// awaitTrial returns when the worker has tried a Redis of the test's own, which it does by itself.
func awaitTrial(t *testing.T, s *setting) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		if !strings.Contains(s.Log(), fmt.Sprintf("redis %q answers", s.ownCluster())) {
			return errors.New("the worker has not tried Redis")
		}
		return nil
	})
}

// awaitStatus returns when a request gets a status.
func awaitStatus(t *testing.T, s *setting, path string, want int) {
	t.Helper()
	l := startVarying(t, 1, func(_ int, _ reply) string { return s.URL + path })
	l.await(1, want)
	l.stop()
}
