package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// settle reads replies of a real Redis until none is due.
func (r *rig) settle() {
	buf := make([]byte, 4096)
	for r.conn.link.pipe.commands.len() > 0 {
		testenv.OK(r.t, r.redis.SetReadDeadline(time.Now().Add(10*time.Second)))
		n, err := r.redis.Read(buf)
		testenv.OK(r.t, err)
		r.conn.Received(buf[:n], r.now)
	}
}

// asked is a request that a real Redis has answered.
func (r *rig) asked(words ...string) *client {
	w := r.ask(words...)
	r.settle()
	return w
}

func TestRealRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	ctx := context.Background()
	if err := client.Do(ctx, "ACL", "SETUSER", "alice", "on", ">s3cr3t", "~rl:*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, "user=alice password=s3cr3t database=3")
	r.address = server.Addr
	first := r.asked("a", "+cost=5")
	testenv.Same(t, "that the first check is allowed", first.decision.Allowed, true)
	testenv.Same(t, "what the first check leaves", first.decision.Remaining, 15)
	testenv.Same(t, "that the first check has a time", first.charges[0].AtMicros != 0, true)
	if err := client.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	second := r.asked("a", "+cost=5")
	left := first.decision.ResetAfterMicros - (second.charges[0].AtMicros - first.charges[0].AtMicros)
	testenv.Same(t, "that it is allowed after SCRIPT FLUSH", second.decision.Allowed, true)
	testenv.Same(t, "what is left of the first check", second.decision.ResetBeforeMicros, max(left, 0))
	r.conn.Refund(second.charges[0], r.now)
	r.settle()
	if third := r.asked("a", "+cost=0").decision; third.Remaining < 15 {
		t.Errorf("after a refund: %+v", third)
	}
	if fourth := r.asked("a", "+cost=21").decision; fourth.Allowed || fourth.RetryAfterMicros != algo.Never {
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
	r := newRig(t, "")
	r.address = server.Addr
	for round := range 6 {
		if round == 4 {
			if err := client.ScriptFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
		}
		tag := fmt.Sprint("user", round)
		full := r.asked(tag, "+cost=20")
		if !full.decision.Allowed {
			t.Fatalf("round %d: %+v", round, full.decision)
		}
		r.conn.Refund(full.charges[0], r.now)
		if next := r.asked(tag, "+cost=20"); !next.decision.Allowed {
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
		{"NOAUTH", "CONFIG SET requirepass s3cr3t", "CONFIG SET requirepass "},
		{"NOPERM", "ACL SETUSER default -eval -evalsha", "ACL SETUSER default +@all"},
	} {
		t.Run(tc.code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin := server.Client().Conn() // stays, whatever is configured
			defer admin.Close()
			do := func(command string) {
				var words []any
				for word := range strings.SplitSeq(command, " ") {
					words = append(words, word)
				}
				testenv.OK(t, admin.Do(t.Context(), words...).Err())
			}
			r := newRig(t, "")
			r.address = server.Addr
			do(tc.begin)
			for range 5 {
				testenv.SameList(t, "a check", r.asked("a").heard, []string{"failed: error_reply"})
			}
			testenv.Same(t, "the breaker", r.conn.State(), Open)
			if len(r.lines) != 1 || !strings.Contains(r.lines[0], "error_reply: "+tc.code+" ") {
				t.Fatalf("logged %q, want one line of %s", r.lines, tc.code)
			}
			r.step("pause")
			r.settle()
			testenv.Same(t, "the breaker after a probe", r.conn.State(), Open)
			do(tc.end)
			r.step("pause")
			r.settle()
			testenv.Same(t, "the breaker after a probe, when it is over", r.conn.State(), Closed)
			testenv.Same(t, "that a check is allowed then", r.asked("a").decision.Allowed, true)
		})
	}
}

// TestSettlementsAddUp: a real Redis holds in the end what was charged, less
// what each settlement gave back, with one command or many.
func TestSettlementsAddUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRig(t, "script=windows")
	r.address = server.Addr
	var charged []Charge
	for range 40 {
		charged = append(charged, r.asked("a", "+cost=2").charges...)
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
	a := r.asked("a", "+cost=0")
	if want := int64(100 - 80 + 40); a.decision.Remaining != want {
		t.Errorf("%d units remain of the minute, want %d", a.decision.Remaining, want)
	}
}

// A Redis that has no TIME decides, charges and gives back.
func TestRealRedisWithoutTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "TIME", "")
	r := newRig(t, "")
	r.address = server.Addr
	first := r.asked("a", "+cost=20")
	if !first.decision.Allowed {
		t.Fatalf("the first check: %+v; log %q", first.decision, r.lines)
	}
	if second := r.asked("a", "+cost=20").decision; second.Allowed {
		t.Errorf("beyond the limit: %+v", second)
	}
	r.conn.Refund(first.charges[0], r.now)
	if third := r.asked("a", "+cost=20").decision; !third.Allowed {
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
