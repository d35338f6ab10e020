package redis

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// tcpHost is a Host whose streams are connections to a real Redis.
type tcpHost struct {
	nullHost
	t       *testing.T
	addr    string
	stream  net.Conn
	streams int
	lines   []string
	counted map[metric.Event]int64
}

func (h *tcpHost) Count(e metric.Event, n int64) { h.counted[e] += n }

func (h *tcpHost) OpenStream() (err error) {
	h.streams++
	h.stream, err = net.Dial("tcp", h.addr)
	return err
}

func (h *tcpHost) Send(commands []byte) error {
	_, err := h.stream.Write(commands)
	return err
}

func (h *tcpHost) CloseStream()     { h.stream.Close() }
func (h *tcpHost) Info(line string) { h.lines = append(h.lines, line) }

// Warn leaves out what is said about single requests.
func (h *tcpHost) Warn(line string) {
	if !strings.Contains(line, "did not decide a request") {
		h.lines = append(h.lines, line)
	}
}

// realRedis is a Conn to a Redis, on a clock of its own.
type realRedis struct {
	*tcpHost
	conn *Conn
	now  int64
}

func connect(t *testing.T, server *redistest.Server, options Options) *realRedis {
	h := &tcpHost{t: t, addr: server.Addr, counted: map[metric.Event]int64{}}
	t.Cleanup(func() {
		if h.stream != nil {
			h.stream.Close()
		}
	})
	return &realRedis{tcpHost: h, conn: New(h, h, options), now: 1}
}

// settle reads replies until none is due.
func (r *realRedis) settle() {
	r.t.Helper()
	buf := make([]byte, 4096)
	for r.conn.link.pipe.commands.len() > 0 {
		if err := r.stream.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			r.t.Fatal(err)
		}
		n, err := r.stream.Read(buf)
		if err != nil {
			r.t.Fatal(err)
		}
		r.conn.Received(buf[:n], r.now)
	}
}

// check asks about a cost, and waits for the answer.
func (r *realRedis) check(s *Script, tag string, cost int64) *answer {
	r.t.Helper()
	a := &answer{charge: Charge{Script: s, Demand: of(tag), Cost: cost}}
	if a.failed = r.conn.Begin(r.now); a.failed != NoCause {
		return a
	}
	a.charge.Nonce = r.conn.Add(a, 0, Check{Script: s, Demand: rule.Demand{Tag: a.charge.Tag}, Cost: cost})
	r.conn.Flush(r.now)
	r.settle()
	return a
}

// probe lets the breaker's pause pass, and waits for the probe's answer.
func (r *realRedis) probe() BreakerState {
	r.t.Helper()
	r.now = r.conn.link.health.breaker.dueMicros
	r.conn.Tick(r.now)
	r.settle()
	return r.conn.State()
}

// answer keeps what the Waiter of one check is told.
type answer struct {
	charge   Charge
	decision algo.Decision
	failed   Cause
}

func (a *answer) Decided(_ int, r *Reply, _ int64) {
	a.charge.AtMicros, a.decision = r.AtMicros, r.Decisions[0]
}

func (a *answer) Failed(_ int, cause Cause, _ int64) { a.failed = cause }

func (a *answer) Remake(int, *Reply, *Check, int64) Remade { return NoSense }

func (a *answer) Expired(int, int64) {}

func TestRealRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	ctx := context.Background()
	if err := client.Do(ctx, "ACL", "SETUSER", "alice", "on", ">s3cr3t", "~rl:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	options := testOptions()
	options.Username, options.Password, options.Database = "alice", "s3cr3t", 3
	r, s := connect(t, server, options), testScript(t)
	first := r.check(s, "user", 5)
	testenv.Same(t, "that the first check is allowed", first.decision.Allowed, true)
	testenv.Same(t, "what the first check leaves", first.decision.Remaining, 15)
	testenv.Same(t, "that the first check has a time", first.charge.AtMicros != 0, true)
	if err := client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	second := r.check(s, "user", 5)
	left := first.decision.ResetAfterMicros - (second.charge.AtMicros - first.charge.AtMicros)
	testenv.Same(t, "that it is allowed after SCRIPT FLUSH", second.decision.Allowed, true)
	testenv.Same(t, "what is left of the first check", second.decision.ResetBeforeMicros, max(left, 0))
	r.conn.Refund(second.charge, r.now)
	r.settle()
	if third := r.check(s, "user", 0); third.decision.Remaining < 15 {
		t.Errorf("after a refund: %+v", third)
	}
	if fourth := r.check(s, "user", 21); fourth.decision.Allowed || fourth.decision.RetryAfterMicros != algo.Never {
		t.Errorf("above the capacity: %+v", fourth)
	}
	if keys := client.DBSize(ctx).Val(); keys != 0 {
		t.Errorf("%d keys in database 0", keys)
	}
	if len(r.lines) > 0 || r.streams != 1 {
		t.Errorf("%d streams, logged %q", r.streams, r.lines)
	}
}

// Refunds come by hash once Redis has run one, and are right all the same after
// SCRIPT FLUSH: the client's next check, sent in the same moment, is decided with
// the refund.
func TestRealRedisRefunds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	ctx := context.Background()
	r, s := connect(t, server, testOptions()), testScript(t)
	for round := range 6 {
		if round == 4 {
			if err := client.ScriptFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
		tag := fmt.Sprint("user", round)
		full := r.check(s, tag, 20)
		if !full.decision.Allowed {
			t.Fatalf("round %d: %+v", round, full)
		}
		r.conn.Refund(full.charge, r.now)
		if next := r.check(s, tag, 20); !next.decision.Allowed {
			t.Errorf("round %d: the next check was decided without the refund: %+v", round, next.decision)
		}
	}
	// By source: the first check and refund, the first of either after the flush,
	// and the check that had been decided before that refund.
	stats := client.Info(ctx, "commandstats").Val()
	for command, want := range map[string]string{"eval": "calls=5,", "evalsha": "calls=17,"} {
		line, _, _ := strings.Cut(stats[strings.Index(stats, "cmdstat_"+command+":")+1:], "\r\n")
		if !strings.Contains(line, want) {
			t.Errorf("%s: %s, want %s", command, line, want)
		}
	}
}

// What makes a real Redis refuse checks opens the breaker, fails its probes, and
// once it is over lets the next one close it.
func TestRealRedisRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ code, begin, end string }{
		{"OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		{"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		{"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
		{"NOAUTH", "CONFIG SET requirepass s3cr3t", "CONFIG SET requirepass \"\""},
		{"NOPERM", "ACL SETUSER default -eval -evalsha", "ACL SETUSER default +@all"},
	} {
		t.Run(tc.code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin, err := net.Dial("tcp", server.Addr) // stays, whatever is configured
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			r, s := connect(t, server, testOptions()), testScript(t)
			do(t, admin, tc.begin)
			for range 5 {
				if a := r.check(s, "user", 1); a.failed != ErrorReply {
					t.Fatalf("%+v; log %q", a, r.lines)
				}
			}
			testenv.Same(t, "the breaker", r.conn.State(), Open)
			if len(r.lines) != 1 || !strings.Contains(r.lines[0], "error_reply: "+tc.code+" ") {
				t.Fatalf("logged %q, want one line of %s", r.lines, tc.code)
			}
			if state := r.probe(); state != Open {
				t.Fatalf("a probe leaves it in state %d", state)
			}
			do(t, admin, tc.end)
			if state := r.probe(); state != Closed {
				t.Fatalf("it is over, and a probe leaves it in state %d, log %q", state, r.lines)
			}
			if a := r.check(s, "user", 1); !a.decision.Allowed {
				t.Errorf("afterwards: %+v", a)
			}
		})
	}
}

// do runs an inline command that answers OK.
func do(t *testing.T, conn net.Conn, command string) {
	t.Helper()
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	n, err := conn.Read(buf)
	if got := string(buf[:n]); err != nil || got != "+OK\r\n" {
		t.Fatalf("%s: %q, %v", command, got, err)
	}
}

// TestSettlementsAddUp: a real Redis holds in the end what was charged, less
// what each settlement gave back, with one command or many.
func TestSettlementsAddUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := connect(t, server, testOptions())
	script := windowsScript(t)
	var charged []Charge
	for range 40 {
		charged = append(charged, r.check(script, "a", 2).charge)
	}
	for i, c := range charged {
		c.Costs = []int64{1, int64(-i % 3)}
		r.conn.Settle(c, c.Costs, r.now)
	}
	r.conn.SendOutbox(r.now)
	r.settle()
	if sent, lost := r.counted[metric.SettlementSent], r.counted[metric.SettlementLost]; sent != 40 || lost != 0 {
		t.Errorf("%d settlements taken, %d lost", sent, lost)
	}
	calls := server.Client().Info(t.Context(), "commandstats").Val()
	if want := "cmdstat_eval:calls=" + strconv.Itoa(1+3); !strings.Contains(calls, want) {
		t.Errorf("want %s, one check and three calls for 40 settlements, in\n%s", want, calls)
	}
	a := r.check(script, "a", 0)
	if want := int64(100 - 80 + 40); a.decision.Remaining != want {
		t.Errorf("%d units remain of the minute, want %d", a.decision.Remaining, want)
	}
}

// A Redis that has no TIME decides, charges and gives back.
func TestRealRedisWithoutTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "TIME", "")
	r, s := connect(t, server, testOptions()), testScript(t)
	first := r.check(s, "user", 20)
	if !first.decision.Allowed {
		t.Fatalf("the first check: %+v; log %q", first, r.lines)
	}
	if second := r.check(s, "user", 20); second.decision.Allowed {
		t.Errorf("beyond the limit: %+v", second)
	}
	r.conn.Refund(first.charge, r.now)
	if third := r.check(s, "user", 20); !third.decision.Allowed {
		t.Errorf("after a refund: %+v", third)
	}
	keys := server.Client().Keys(context.Background(), "*").Val()
	if len(keys) != 2 {
		t.Errorf("keys %q, want that of the limit and a clock", keys)
	}
	if len(r.lines) != 1 {
		t.Errorf("logged %q, want one line", r.lines)
	}
}
