package redis

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// errorReplies are real answers of servers: Redis 7.0.15 unless a comment
// says otherwise. hint is part of the remedy in the log.
var errorReplies = []struct {
	text, hint string
	drops      bool // the connection is replaced
}{
	{"LOADING Redis is loading the dataset in memory", "wait until it is done", false},
	{"READONLY You can't write against a read only replica. script: fd025da278024fe7a673b46f5cabd34e715d760d, on " +
		"@user_script:1.", "point the cluster's endpoint at the primary", true},
	{"OOM command not allowed when used memory > 'maxmemory'. script: fd025da278024fe7a673b46f5cabd34e715d760d, on " +
		"@user_script:1.", "raise maxmemory", false},
	{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "see SCRIPT KILL", false},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "lost its primary", true},
	{"CLUSTERDOWN Hash slot not served", "see CLUSTER INFO", false},
	{"MOVED 3999 127.0.0.1:6381", "use redis_proxy, see docs", false},
	{"ASK 3999 127.0.0.1:6381", "use redis_proxy, see docs", false},
	{"TRYAGAIN Multiple keys request during rehashing of slot", "wait until it is done", false},
	{"NOAUTH Authentication required.", "set redis.password", true},
	{"DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the " +
		"default user.", "protected-mode no", false},
	{"WRONGPASS invalid username-password pair or user is disabled.", "check redis.username", true},
	{"NOPERM this user has no permissions to run the 'evalsha' command", "ACL", false},
	{
		"NOREPLICAS Not enough good replicas to write. script: fd025da278024fe7a673b46f5cabd34e715d760d, on @user_script:1.",
		"min-replicas-to-write", false,
	},
	{
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"see its log", false,
	},
	{"ERR max number of clients reached", "raise maxclients", false},
	{"ERR unknown command 'EVALSHA'", "does not offer this command", false},
	{"ERR something quite unheard of", "something quite unheard of", false},
	// Redis 6.2 wraps what a command in a script answers.
	{"ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f0fb1291d6438a1cc): @user_script:1: @user_script: 1: " +
		"-READONLY You can't write against a read only replica.", "point the cluster's endpoint at the primary", true},
	// Envoy's redis_proxy (source/extensions/filters/network/redis_proxy/command_splitter_impl.h).
	{"no upstream host", "no healthy Redis", false},
	{"upstream failure", "look at its cluster's endpoints", false},
	{"NOAUTH Authentication required.", "set redis.password", true},
}

// Every error reply fails its request, opens the breaker when there have been
// enough, and is named in the one line that says so.
func TestErrorReplies(t *testing.T) {
	t.Parallel()
	ending := regexp.MustCompile("; the failure mode applies, next probe in 1[0-2][0-9]ms$")
	for _, tc := range errorReplies {
		r := newRig(t, testOptions())
		for i := range 5 {
			r.wantState(Closed)
			r.now += uselessPauseMicros
			w := r.request("a").flush()
			if i > 0 && tc.drops {
				r.prove()
			}
			r.answer("-" + tc.text + "\r\n")
			w.wantAll(ErrorReply.String())
			if r.open == tc.drops {
				t.Errorf("%s: the stream is open: %v", tc.text, r.open)
			}
			if want := i + 1; r.failed[ErrorReply] != want {
				t.Errorf("%s: failed %v, want %d", tc.text, r.failed, want)
			}
		}
		r.wantState(Open)
		r.wantInFlight(0)
		r.passPause() // the probe gets the same answer, which says nothing new
		r.answer("-" + tc.text + "\r\n")
		r.wantState(Open)
		if len(r.lines) != 1 {
			t.Fatalf("%s: logged %q, want one line", tc.text, r.lines)
		}
		line := r.lines[0]
		code, _, _ := strings.Cut(strings.TrimPrefix(tc.text[max(0, strings.LastIndex(tc.text, ": -")):], ": -"), " ")
		if !strings.HasPrefix(line, "redis does not decide: error_reply: "+code) || !strings.Contains(line, tc.hint) {
			t.Errorf("%s: logged %q, want the code %s and %q", tc.text, line, code, tc.hint)
		}
		if !ending.MatchString(line) {
			t.Errorf("%s: logged %q", tc.text, line)
		}
	}
}

// No credential and no identity reaches the log, nor anything that a terminal
// or a log's reader would take for more than text.
func TestComplaintKeepsSecrets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ command, text, want string }{
		{
			"AUTH", "ERR unknown command 'AUTH', with args beginning with: 'alice' 's3cr3t' ",
			"AUTH refused: ERR unknown command 'AUTH' (the server, or redis_proxy before it, does not offer this command)",
		},
		{
			"", "ERR unknown command `EVALSHA`, with args beginning with: `0123`, `1`, `rl:{user|token}:gcra:1s`, ",
			"ERR unknown command `EVALSHA` (the server, or redis_proxy before it, does not offer this command)",
		},
		{
			"AUTH", "WRONGPASS no user alice with s3cr3t",
			"AUTH refused: WRONGPASS ... (check redis.username and the password)",
		},
		{
			"", "NOPERM User alice has no permissions",
			"NOPERM ... (give the ACL user the rights that docs/operations.md lists, on keys that begin with redis.key_prefix)",
		},
		{"AUTH", "s3cr3t is wrong", "AUTH refused: ERR ..."},
		{"", strings.Repeat("x", 195) + "s3cr3t", "ERR ..."}, // cut where the log would end
		{"", "ERR \x1b[31mred\x07\x00\xff\tü", "ERR ?[31mred?????\x3f"},
		{"", "ERR " + strings.Repeat("long ", 1000), "ERR " + strings.Repeat("long ", 39) + "l"},
		{"", "", ""},
	} {
		h := health{options: &Options{Username: "alice", Password: "s3cr3t"}}
		h.complain(tc.command, []byte(tc.text))
		if _, got := h.why(ErrorReply); got != tc.want {
			t.Errorf("%q:\ngot  %q\nwant %q", tc.text, got, tc.want)
		}
	}
}

// The whole log of an outage holds no credential, whatever the server sends.
func TestLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Username, options.Password = "alice", "s3cr3t"
	for _, reply := range []string{
		"-ERR unknown command 'AUTH', with args beginning with: 'alice' 's3cr3t' \r\n",
		"-WRONGPASS s3cr3t\r\n",
		"+s3cr3t\r\n-ERR s3cr3t\r\n",
		"s3cr3t\r\n",
	} {
		r := newRig(t, options)
		for range 5 {
			if w := r.request("alice").flush(); w.refused == NoCause {
				r.receive(reply)
				r.pass(200 * ms)
			}
		}
		log := strings.Join(r.lines, "\n")
		testenv.Same(t, reply+": that nothing is logged", log == "", false)
		for _, secret := range []string{"s3cr3t", "alice"} {
			testenv.Same(t, reply+": that the log has "+secret, strings.Contains(log, secret), false)
		}
	}
}

// Remedies are found by whole words.
func TestFindRemedy(t *testing.T) {
	t.Parallel()
	for text, found := range map[string]bool{
		"BUSY": true, "BUSY Redis is busy": true, "BUSYKEY Target key name already exists.": false, "": false, "ERR": false,
	} {
		if got := findRemedy([]byte(text)); (got != nil) != found {
			t.Errorf("%q: got %v", text, got)
		}
	}
	for i, r := range remedies {
		if got := findRemedy([]byte(r.prefix + " x")); got != &remedies[i] {
			t.Errorf("%q is hidden behind %q", r.prefix, got.prefix)
		}
	}
}

func TestCauseNames(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{"": true, "unknown": true}
	for c := range Cause(Causes) {
		if taken[c.String()] {
			t.Errorf("cause %d is called %q, want a name of its own", c, c)
		}
		taken[c.String()] = true
	}
	if Cause(Causes).String() != "unknown" {
		t.Error("a number beyond the causes has a name")
	}
}

// What servers answer to a script that calls a command they do not have.
var commandRefused = map[string]bool{
	// Redis 7.0.15 with rename-command TIME "".
	"ERR Unknown Redis command called from script script: c1df3152e643748c5d31eb280b865f151d6476d8, " +
		"on @user_script:2.": true,
	// Redis 6.2.
	"ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f0fb1291d6438a1cc): @user_script:2: @user_script: 2: " +
		"Unknown Redis command called from Lua script": true,
	// Valkey 9.
	"ERR Unknown command called from script script: 53aa7d296ba9ded783301cc275161b6e344ad383, on @user_script:2.": true,
	// Amazon ElastiCache Serverless.
	"ERR This Redis command is not allowed from script script: 53aa7d296ba9ded783301cc275161b6e344ad383, on " +
		"@user_script:13.": true,

	"ERR The user executing the script can't run this command or subcommand script: x, on @user_script:2.": false,
	"NOPERM this user has no permissions to run the 'time' command":                                        false,
	"ERR unknown command 'EVALSHA'":                  false,
	"LOADING Redis is loading the dataset in memory": false,
}

// Where scripts may not call TIME, they are sent again without it, and from then on at once. Any other
// refusal is an error.
func TestWithoutTime(t *testing.T) {
	t.Parallel()
	for text, refused := range commandRefused {
		r := newRig(t, testOptions())
		w := r.request("a").flush()
		r.answer("-" + text + "\r\n")
		if !refused {
			w.want("error_reply")
			continue
		}
		if got := r.allow(7); got[0] != "EVAL" || got[1] != r.script.plan.ScriptWithoutTime().Source {
			t.Errorf("%s: sent %q, want a script without TIME", text, got)
		}
		w.want("at 7")
	}
}

// Memory is a share of what the server may use, rounded up.
func TestMemoryPercent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ used, maximum, want int64 }{
		{90, 100, 90},
		{901, 1000, 91},
		{100, 100, 100},
		{150, 100, 150},
		{5, 0, 0},
		{Unknown, 100, 0},
		{5, Unknown, 0},
		{1 << 62, 1, 1e9},
	} {
		v := ServerStats{UsedBytes: tc.used, MaxBytes: tc.maximum}
		testenv.Same(t, "the percentage", v.MemoryPercent(), tc.want)
	}
}
