package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// inOneGo sends 1,000 requests on each of some connections to a listener, in one write each. user names
// the client of a request, in six bytes.
func inOneGo(t *testing.T, s *setting, addr string, connections int, user func(connection, stream int) string) {
	t.Helper()
	const streams = 1000
	before := requestsOf(s)
	var all []net.Conn
	for range connections {
		conn := dial(t, addr)
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		preface := appendFrame([]byte(http2Preface), settingsFrame, 0, 0, "")
		preface = appendFrame(preface, windowFrame, 0, 0, "\x7f\x00\x00\x00") // room for all answers
		if _, err := conn.Write(preface); err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	for i, conn := range all {
		var requests []byte
		for j := range streams {
			// GET, http, "/", authority "x", and a field that HPACK does not index (RFC 7541, section 6.2.2).
			block := "\x82\x86\x84\x01\x01x\x00\x06x-user\x06" + user(i, j)
			requests = appendFrame(requests, headersFrame, endStreamAndHeaders, 2*j+1, block)
		}
		if _, err := conn.Write(requests); err != nil {
			t.Fatal(err)
		}
	}
	awaitSettled(t, s, before+connections*streams)
}

// Frames of HTTP/2, see RFC 9113, section 6.
const (
	headersFrame, settingsFrame, windowFrame = 1, 4, 8

	endStreamAndHeaders = 0x1 | 0x4
	http2Preface        = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// appendFrame appends a frame of HTTP/2.
func appendFrame(dst []byte, kind, flags byte, stream int, payload string) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	dst = append(dst, byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
	return append(dst, payload...)
}

// requestsOf is how many requests Envoy has had.
func requestsOf(s *setting) int {
	const total = "http.limited.downstream_rq_total"
	return int(s.Stats(total)[total])
}

// floods are requests in one go, of which the worker sends Redis a part in time. What it decides of the
// others, in mode "allow", is compared with what Redis said last, whatever size the limit has for a request,
// and whatever a guarantee hid of its pool.
var floods = []struct {
	name, rule string
	user       func(connection, stream int) string
	want       int64
}{
	{
		name: "a window of three sizes",
		rule: `"key": [], "limits": [{"algorithm": "fixed_window", ` + long + `, "limit": ` + bySize + `}]`,
		user: func(_, stream int) string { return [...]string{"000005", "000010", "000020"}[stream%3] },
		want: 20,
	},
	{
		name: "a bucket of two bursts",
		rule: `"key": [], "limits": [{"algorithm": "gcra", ` + long + `, "limit": 20, "burst": ` + bySize + `}]`,
		user: func(_, stream int) string { return [...]string{"000010", "000011"}[stream%2] },
		want: 11,
	},
	{
		name: "400 users within guarantees that do not fit",
		rule: `"key": [], "limits": [
			{"name": "each", "per": [{"header": "x-user"}], "guarantee": true,
				"algorithm": "gcra", "limit": 5, "window": "100d"},
			{"name": "pool", "algorithm": "gcra", "limit": 300, "window": "100d"}]`,
		user: func(_, stream int) string { return fmt.Sprint("u", 10_000+stream%400) },
		want: 600,
	},
}

// bySize is a number that comes with the request.
const bySize = `{"header": "x-user", "default": 5, "max": 500}`

// TestInOneGo: clients send thousands of requests before the worker can read what becomes of
// the first. Each gets its limit.
func TestInOneGo(t *testing.T) {
	const limit, connections = 10, 6
	// The timeout is longer than the default, with which a busy machine lets Redis decide too little, and
	// shorter than what all requests would take.
	const hurried = `{"redis": {"cluster": "redis", "timeout": "1s"}, "rules": [{"name": "r%d", %s}]}`
	user := fmt.Sprintf(`"key": [{"header": "x-user"}], "limits": [{"algorithm": "fixed_window", "limit": %d, %s}]`,
		limit, long)
	beside := map[string]string{"users": fmt.Sprintf(hurried, len(floods), user)}
	for i, tc := range floods {
		beside[tc.name] = fmt.Sprintf(hurried, i, tc.rule)
	}
	s := start(t, `{`+patient+`"rules": [{"name": "r", `+user+`}]}`, envoytest.Options{Workers: 1, Beside: beside})
	addr := func(name string) string { return strings.TrimPrefix(s.Beside[name], "http://") }
	defer func() {
		if t.Failed() {
			t.Log(s.Stats("wasmcustom.sluice."))
		}
	}()
	for _, url := range []string{s.URL, s.Beside["users"]} {
		testenv.Wait(t, patience, func() error { // until Redis has decided a request, of a user of its own
			if r := get(t, url, "x-user: first"); r.header.Get("x-ratelimit-limit") == "" {
				return fmt.Errorf("not decided: status %d, headers %v", r.status, r.header)
			}
			return nil
		})
	}
	awaitSettled(t, s, requestsOf(s))

	// As many clients as may wait send a request each, at once. All are decided.
	const allowed = "wasmcustom.sluice.outcome.allowed.requests_total" // more than Envoy lets the upstream have at once
	before := s.Stats(allowed)[allowed]
	inOneGo(t, s, s.Addr, 4, func(connection, stream int) string { return fmt.Sprint("u", 10_000+1000*connection+stream) })
	testenv.Same(t, allowed, s.Stats(allowed)[allowed]-before, 4*1000)
	for name, n := range s.Stats("wasmcustom.sluice.redis.cause.") {
		testenv.Same(t, name, n, 0)
	}
	for i, tc := range []struct {
		name    string
		clients int
	}{
		{"one client", 1},
		{"a client on each connection", connections},
	} {
		before := s.upstream.Count()
		inOneGo(t, s, addr("users"), connections, func(connection, _ int) string {
			return fmt.Sprint("us", 1000*(i+1)+connection%tc.clients)
		})
		testenv.Same(t, tc.name+": requests of the upstream", s.upstream.Count()-before, limit*tc.clients)
	}
	for _, tc := range floods {
		wentOn := func() int64 {
			stats := s.Stats("wasmcustom.sluice.outcome.")
			return stats["wasmcustom.sluice.outcome.allowed.requests_total"] +
				stats["wasmcustom.sluice.outcome.failed_allow.requests_total"]
		}
		before := wentOn()
		inOneGo(t, s, addr(tc.name), connections, tc.user)
		testenv.Same(t, tc.name+": requests that went on", wentOn()-before, tc.want)
	}
}

// awaitActive returns when Envoy has that many requests under way.
func awaitActive(t *testing.T, s *setting, want int) {
	t.Helper()
	name := "http." + s.listener + ".downstream_rq_active"
	testenv.Wait(t, patience, func() error {
		if got := s.Stats(name)[name]; got != int64(want) {
			return fmt.Errorf("%d requests under way, want %d", got, want)
		}
		return nil
	})
}

// clientsWaitForRedis, while it hangs: who would be one too many in a worker does not wait for it, and replies to
// clients that have gone reach no other client. Each of the others gets its own.
var clientsWaitForRedis = plain{
	name: "clients wait for Redis",
	config: `{"redis": {"cluster": "redis", "timeout": "20s"},
		"failure": {"mode": "deny", "max_pending": 120, "breaker": {"failures": 1000000}}, "rules": [
		{"name": "a", "match": {"path": "/901"}, "key": [{"query": "u"}],
			"limits": [{"algorithm": "gcra", "limit": 901, ` + long + `}]},
		{"name": "b", "match": {"path": "/902"}, "key": [{"query": "u"}],
			"limits": [{"algorithm": "gcra", "limit": 902, ` + long + `}]}]}`,
	worker: true,
	own:    redisWith(),
	play: func(t *testing.T, s *setting) {
		for _, path := range []string{"/901", "/902"} {
			testenv.Same(t, "status before Redis hangs", get(t, s.URL+path+"?u=first").status, http.StatusOK)
		}
		s.redis.Signal(syscall.SIGSTOP)
		const clients = 120
		var (
			group  sync.WaitGroup
			leave  []context.CancelFunc
			client = newClient()
		)
		defer client.CloseIdleConnections()
		for i := range clients {
			mine, cancel := context.WithCancel(ctx)
			defer cancel()
			leaves := i%3 == 0
			if leaves {
				leave = append(leave, cancel)
			}
			limit := 901 + i%2
			group.Go(func() {
				r, err := send(mine, client, fmt.Sprintf("%s/%d?u=%d", s.URL, limit, i))
				switch {
				case leaves && err == nil:
					t.Errorf("request %d was answered after its client had gone", i)
				case !leaves && (err != nil || r.header.Get("x-ratelimit-limit") != fmt.Sprint(limit) ||
					r.header.Get("x-ratelimit-remaining") != fmt.Sprint(limit-1)):
					t.Errorf("request %d: %v, status %d, headers %v; want a limit of %d with one gone", i, err,
						r.status, r.header, limit)
				}
			})
		}
		awaitActive(t, s, clients)
		expectTally(t, "too many", burst(t, 10, 10, []string{s.URL + "/902?u=x"}), tally{http.StatusServiceUnavailable: 10})
		for _, cancel := range leave {
			cancel()
		}
		awaitActive(t, s, clients-len(leave))
		s.redis.Signal(syscall.SIGCONT)
		group.Wait()
		testenv.Same(t, "status afterwards", get(t, s.URL+"/902?u=x").status, http.StatusOK)
	},
}
