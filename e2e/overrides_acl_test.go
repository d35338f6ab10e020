package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestUsersOfOverrides: with the stricter rights the plugin can set no override, and people on call those only.
func TestUsersOfOverrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	clients := map[string]*redis.Client{}
	for _, user := range []string{"sluice", "alice"} {
		rights := aclOf(t, "ACL SETUSER "+user+" on >PASSWORD (.*)")
		testenv.OK(t, server.Client().Do(ctx, words("ACL SETUSER "+user+" on >"+password+" "+rights)...).Err())
		clients[user] = redis.NewClient(&redis.Options{
			Addr: server.Addr, Username: user, Password: password, Protocol: 2, DisableIdentity: true,
		})
		t.Cleanup(func() { clients[user].Close() })
	}
	for _, tc := range []struct {
		user, command string
		may           bool
	}{
		{"sluice", "GET rl:{o|a}:override", true},
		{"sluice", "SET rl:{o|a}:override free", false},
		{"sluice", "DEL rl:{o|a}:override", false},
		{"sluice", "SET other x", false},
		{"alice", "SET rl:{o|a}:override block EX 3600", true},
		{"alice", "GET rl:{o|a}:override", true},
		{"alice", "PTTL rl:{o|a}:override", true},
		{"alice", "DEL rl:{o|a}:override rl:{o|a}:penalty", true},
		{"alice", "GET rl:{o|a}:gcra:1s", false},
		{"alice", "DEL rl:{o|a}:gcra:1s", false},
		{"alice", "FLUSHALL", false},
		{"alice", "KEYS *", false},
		{"alice", "EVAL return 0", false},
	} {
		err := clients[tc.user].Do(ctx, words(tc.command)...).Err()
		isRefused := strings.HasPrefix(fmt.Sprint(err), "NOPERM")
		testenv.Same(t, fmt.Sprintf("that %s may %s (%v)", tc.user, tc.command, err), !isRefused, tc.may)
	}
}

// TestAuditTrail: Redis tells who listens of each change of an override, and of its
// end, as docs/operations.md says.
func TestAuditTrail(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/operations.md")
	quoted := func(after string) string {
		_, rest, _ := strings.Cut(string(page), after+" '")
		value, _, ok := strings.Cut(rest, "'")
		if !ok {
			t.Fatalf("docs/operations.md has no %s", after)
		}
		return value
	}
	client := redistest.Start(t).Client()
	if err := client.ConfigSet(ctx, "notify-keyspace-events",
		quoted("CONFIG SET notify-keyspace-events")).Err(); err != nil {
		t.Fatal(err)
	}
	listener := client.PSubscribe(ctx, quoted("PSUBSCRIBE"))
	defer listener.Close()
	if _, err := listener.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	client.Set(ctx, "rl:{o|a}:gcra:1s", "x", 0) // of this nothing is told
	client.Set(ctx, "rl:{o|a}:override", "block", 0)
	client.Del(ctx, "rl:{o|a}:override")
	client.Set(ctx, "rl:{o|a}:override", "free", 100*time.Millisecond)
	for _, want := range []string{"set", "del", "set", "expire", "expired"} {
		got, err := listener.ReceiveMessage(ctx)
		testenv.SameError(t, "what the listener is told", err, nil)
		testenv.Same(t, "the event", got.Payload, want)
		testenv.Same(t, "its channel", got.Channel, "__keyspace@0__:rl:{o|a}:override")
	}
}
