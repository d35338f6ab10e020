package redis

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/redisresp"
)

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

// Such an answer is known from any other refusal.
func TestWithoutTime(t *testing.T) {
	t.Parallel()
	for text, want := range commandRefused {
		reply, _, _ := redisresp.NewDecoder(replyLimits).Decode([]byte("-" + text + "\r\n"))
		got := new(replies).outcomeOf(&command{kind: checking}, reply, 0)
		testenv.Same(t, text+": that it is known", got == timeless, want)
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
