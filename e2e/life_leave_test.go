package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestLeaversChargeNoOthers: an exhausted user's client sends requests and leaves at
// once. They are settled all the same: the tenant pays for what was admitted only.
func TestLeaversChargeNoOthers(t *testing.T) {
	t.Parallel()
	const limit, leavers = 5, 400
	cases := []struct {
		name      string
		denyCache int
		leave     func(t *testing.T, addr string, requests int)
	}{
		{name: "HTTP/1.1 close", denyCache: 4096, leave: sendAndClose},
		{name: "HTTP/1.1 close, no deny cache", denyCache: 0, leave: sendAndClose},
		{name: "HTTP/2 reset", denyCache: 4096, leave: sendAndReset},
		{name: "HTTP/2 reset, no deny cache", denyCache: 0, leave: sendAndReset},
	}
	beside := map[string]string{}
	for i, tc := range cases {
		beside[fmt.Sprint(i)] = fmt.Sprintf(`{%s"deny_cache": {"size": %d}, "rules": [
			{"name": "tenant-%d", "key": [{"header": "x-tenant"}], "cost": {"header": "x-cost", "default": 1, "max": 9},
				"limits": [{"algorithm": "fixed_window", "limit": 1000, %s}]},
			{"name": "user-%[3]d", "key": [{"header": "x-user"}], "limits": [{"algorithm": "gcra", "limit": %[5]d, %[4]s}]}]}`,
			patient, tc.denyCache, i, long, limit)
	}
	s := start(t, `{`+patient+`"rules": [{"name": "r", `+hundred+`}]}`, envoytest.Options{Beside: beside})
	for i, tc := range cases {
		url, sent := s.Beside[fmt.Sprint(i)], requestsOf(s)
		for range limit {
			get(t, url, "x-tenant: t", "x-user: u")
		}
		before := s.snapshot(t)
		tc.leave(t, strings.TrimPrefix(url, "http://"), leavers)
		awaitSettled(t, s, sent+limit+leavers)
		s.awaitSnapshot(t, before) // no request waits for refunds
		testenv.Same(t, tc.name+": the tenant's remaining", remaining(t, url, "x-tenant: t"), fmt.Sprint(1000-limit))
	}
}

// awaitSettled returns when Envoy has had a number of requests, all of them are
// over, and the plugin has counted each.
func awaitSettled(t *testing.T, s *setting, requests int) {
	t.Helper()
	const all, active, outcomes = "http.limited.downstream_rq_total", "http.limited.downstream_rq_active",
		"wasmcustom.sluice.outcome."
	testenv.Wait(t, 6*patience, func() error {
		envoy, told := s.Stats("http.limited.downstream_rq"), int64(0)
		for _, n := range s.Stats(outcomes) {
			told += n
		}
		got, want := [3]int64{envoy[all], envoy[active], told}, [3]int64{int64(requests), 0, int64(requests)}
		if got != want {
			return fmt.Errorf("requests that came, are under way, and are counted: %d, want %d", got, want)
		}
		return nil
	})
}

// dial connects to Envoy. The connection ends with the test.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	testenv.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// sendAndClose sends each request on a connection of its own, and closes it.
func sendAndClose(t *testing.T, addr string, requests int) {
	t.Helper()
	for range requests {
		conn := dial(t, addr)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nhost: x\r\nx-tenant: t\r\nx-user: u\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

// Frames of HTTP/2, see RFC 9113, section 6.
const (
	headersFrame, resetFrame, settingsFrame, windowFrame = 1, 3, 4, 8

	endStreamAndHeaders = 0x1 | 0x4
	http2Preface        = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	cancelCode          = "\x00\x00\x00\x08"
)

// appendFrame appends a frame of HTTP/2.
func appendFrame(dst []byte, kind, flags byte, stream int, payload string) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	dst = append(dst, byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
	return append(dst, payload...)
}

// literal is a header field that HPACK does not index (RFC 7541, section 6.2.2).
func literal(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// sendAndReset sends requests, and resets the stream of each, on connections of 100
// streams. Envoy takes more on one connection for an attack.
func sendAndReset(t *testing.T, addr string, requests int) {
	t.Helper()
	const streams = 100
	block := "\x82\x86\x84\x01\x01x" + // GET, http, "/", authority "x"
		literal("x-tenant", "t") + literal("x-user", "u")
	for range requests / streams {
		conn := dial(t, addr)
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		frames := appendFrame([]byte(http2Preface), settingsFrame, 0, 0, "")
		for i := range streams {
			frames = appendFrame(frames, headersFrame, endStreamAndHeaders, 2*i+1, block)
			frames = appendFrame(frames, resetFrame, 0, 2*i+1, cancelCode)
		}
		if _, err := conn.Write(frames); err != nil {
			t.Fatal(err)
		}
	}
}

// leaversGiveTheirPlacesBack: a queue that is full has room again when clients
// leave that it holds. Those who stay keep their times.
var leaversGiveTheirPlacesBack = plain{
	name: "leavers give their places back",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
		{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "5s", "burst": 4, "max_delay": "1m"}]}]}`,
	play: func(t *testing.T, s *setting) {
		const interval = 5 * time.Second
		d := new(departures)
		s.upstream.Handle(d)
		leaving, leave := context.WithCancel(ctx)
		defer leave()
		answers := enqueue(t, s, []context.Context{ctx, leaving, leaving, ctx})
		stayed := time.Now() // request 3 is due two to three intervals from here
		testenv.Same(t, "a full queue: status", get(t, s.URL, "x-user: u").status, http.StatusTooManyRequests)
		leave()
		testenv.Wait(t, patience, func() error { // the other worker may remember the rejection for 100 ms
			if r := get(t, s.URL+"/?4", "x-user: u"); r.status != http.StatusOK {
				return fmt.Errorf("status %d: no place was given back", r.status)
			}
			return nil
		})
		for i, answer := range answers {
			if err := <-answer; (err != nil) != (i == 1 || i == 2) {
				t.Errorf("request %d: %v", i, err)
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		testenv.Same(t, "the upstream got", strings.Join(d.names, " "), "0 4 3")
		if wait := d.times[len(d.times)-1].Sub(stayed); wait < 2*interval-interval/2 {
			t.Errorf("request 3 left after %v, want about %v", wait, 3*interval)
		}
	},
}
