package redis

import (
	"fmt"
	"strings"
	"testing"
)

const (
	infoServer = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n"
	primary    = "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
	replica    = "# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\n"
	noInfo     = "-NOPERM this user has no permissions to run the 'info' command\r\n"
)

// bulk is a bulk string.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// tryOptions are those of a worker that tries Redis.
func tryOptions() Options {
	options := testOptions()
	options.Cluster, options.Try = "redis", true
	return options
}

// startups are servers that a worker meets with its first tick, and how its line begins.
var startups = []struct {
	name    string
	arrange func(*rig)
	replies []string
	after   func(*rig)
	want    string // how the line begins
}{
	{
		name:    "a primary",
		replies: []string{bulk(infoServer), bulk(primary), "+OK\r\n"},
		want:    `redis "redis" answers: Redis 7.0.15, primary`,
	},
	{
		name: "Valkey, which says which Redis it is like",
		replies: []string{
			bulk("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n"),
			bulk(primary), "+OK\r\n",
		},
		want: `redis "redis" answers: Valkey 8.1.0, primary`,
	},
	{
		name:    "Dragonfly",
		replies: []string{bulk("redis_version:7.4.0\ndragonfly_version:df-v1.30.0\n"), bulk("role:master"), "+OK\r\n"},
		want:    `redis "redis" answers: Dragonfly df-v1.30.0, primary`,
	},
	{
		name:    "INFO is refused",
		replies: []string{noInfo, noInfo, "+OK\r\n"},
		want:    `redis "redis" answers`,
	},
	{
		name:    "redis_proxy 1.40, which knows one section",
		replies: []string{bulk(infoServer), bulk(""), "+OK\r\n"},
		want:    `redis "redis" answers: Redis 7.0.15`,
	},
	{
		name:    "INFO is something else",
		replies: []string{":1\r\n", bulk("role:\x1b[31mmaster\r\n"), "+OK\r\n"},
		want:    `redis "redis" answers`,
	},
	{
		name:    "a replica",
		replies: []string{bulk(infoServer), bulk(replica), "-READONLY You can't write against a read only replica.\r\n"},
		want: `redis "redis" cannot be used: error_reply: READONLY You can't write against a read only replica. (this ` +
			`is a replica: point the cluster's endpoint at the primary)`,
	},
	{
		name:    "scripts are refused",
		replies: []string{noInfo, noInfo, "-NOPERM this user has no permissions to run the 'eval' command\r\n"},
		want:    `redis "redis" cannot be used: error_reply: NOPERM`,
	},
	{
		name: "a password is needed",
		replies: []string{
			"-NOAUTH Authentication required.\r\n", "-NOAUTH Authentication required.\r\n",
			"-NOAUTH Authentication required.\r\n",
		},
		want: `redis "redis" cannot be used: error_reply: NOAUTH Authentication required. (set redis.password or ` +
			`redis.password_env)`,
	},
	{
		name:    "no such cluster",
		arrange: func(r *rig) { r.openErr = errHost },
		want:    `redis "redis" cannot be used: unreachable: ` + errHost.Error(),
	},
	{
		name:    "refused in the call",
		arrange: func(r *rig) { r.closeInOpen = true },
		want:    `redis "redis" cannot be used: unreachable: no connection`,
	},
	{
		name:  "refused later",
		after: (*rig).closeStream,
		want:  `redis "redis" cannot be used: unreachable: no connection`,
	},
	{
		name:  "not RESP",
		after: func(r *rig) { r.receive("HTTP/1.1 400 Bad Request\r\n") },
		want:  `redis "redis" cannot be used: malformed_reply: the server does not speak RESP`,
	},
	{
		name:  "silence",
		after: func(r *rig) { r.pass(50 * ms) },
		want: `redis "redis" cannot be used: timeout: no reply within redis.timeout (check whether Redis is stopped, ` +
			`overloaded, or slow to reach); or the cluster lacks the bridge filter`,
	},
	{
		name:    "another reply to the script",
		replies: []string{bulk(infoServer), bulk(primary), ":7\r\n"},
		want:    `redis "redis" cannot be used: malformed_reply`,
	},
}

// With its first tick a worker tries Redis, and one line says what answers or what
// is wrong.
func TestStartupCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range startups {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tryOptions())
			if tc.arrange != nil {
				tc.arrange(r)
			}
			if next := r.conn.NextTickMicros(r.now); next != minTickMicros {
				t.Errorf("the first tick is in %d us, want %d", next, minTickMicros)
			}
			r.pass(minTickMicros)
			for _, reply := range tc.replies {
				r.answer(reply)
			}
			if tc.after != nil {
				tc.after(r)
			}
			r.pass(1000 * ms) // once
			if len(r.lines) != 1 || !strings.HasPrefix(r.lines[0], tc.want) {
				t.Errorf("logged %q, want one line: %s", r.lines, tc.want)
			}
			if len(r.failed) > 0 || r.conn.State() != Closed {
				t.Errorf("failed %v, state %d: no request has", r.failed, r.conn.State())
			}
		})
	}
}

// A refused password opens the breaker at once, which is a line of its own.
func TestStartupCheckWithWrongPassword(t *testing.T) {
	t.Parallel()
	options := tryOptions()
	options.Password = "s3cr3t"
	r := newRig(t, options)
	r.pass(minTickMicros)
	r.answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	want := []string{
		"redis does not decide: error_reply: AUTH refused: WRONGPASS",
		`redis "redis" cannot be used: error_reply: AUTH refused: WRONGPASS`,
	}
	if len(r.lines) != len(want) {
		t.Fatalf("logged %q, want %q", r.lines, want)
	}
	for i := range want {
		if !strings.HasPrefix(r.lines[i], want[i]) {
			t.Errorf("logged %q, want %q", r.lines[i], want[i])
		}
	}
}

// Requests do not wait for the startup check, nor the check for them.
func TestStartupCheckAmongRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, tryOptions())
	before := r.request("a").flush()
	r.pass(minTickMicros)
	after := r.request("b").flush()
	if got := r.names(); got != "EVALSHA INFO INFO EVAL EVALSHA" {
		t.Fatalf("sent %s", got)
	}
	r.allow(1)
	r.answer(bulk(infoServer))
	r.answer(bulk(primary))
	r.answer("+OK\r\n")
	r.allow(2)
	before.want("at 1")
	after.want("at 2")
	if r.streams != 1 {
		t.Errorf("%d streams, want one", r.streams)
	}
}

// While the breaker is open nothing but its probe is sent.
func TestNoStartupCheckWhileOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, tryOptions())
	r.trip(5)
	r.pass(minTickMicros)
	if len(r.commands) > 0 {
		t.Errorf("sent %v", r.commands)
	}
	r.passPause()
	r.answer("+OK\r\n")
	r.pass(100 * ms)
	if len(r.commands) > 0 {
		t.Errorf("sent %v", r.commands)
	}
}

// The first failure of a request is in the log, and then one a minute; the
// breaker's own lines are not said twice.
func TestFirstFailureIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, tryOptions())
	for minute := range 3 {
		for range 4 {
			r.request("a").flush()
			r.answer("-LOADING Redis is loading the dataset in memory\r\n")
			r.now += 10_000 * ms
			r.request("a").flush()
			r.allow(1)
		}
		if len(r.warnings) != minute+1 {
			t.Fatalf("minute %d: logged %q", minute, r.warnings)
		}
		r.now += 20_000 * ms
	}
	want := `redis "redis" did not decide a request: error_reply: LOADING Redis is loading the dataset in memory (Redis ` +
		`is loading its data set: wait until it is done)`
	if !strings.HasPrefix(r.warnings[0], want) {
		t.Errorf("logged %q, want %q", r.warnings[0], want)
	}
	r.now += warnPauseMicros
	r.trip(5)
	r.now += warnPauseMicros
	r.request("a").flush().wantRefused(BreakerOpen)
	if len(r.warnings) != 4 || len(r.lines) != 1 {
		t.Errorf("logged %q and %q; want one line about a request, one about the breaker", r.warnings, r.lines)
	}
}
