package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// documentedUser has the rights that docs/operations.md gives a user of Redis.
func documentedUser(t testing.TB, name string) (rights []string) {
	t.Helper()
	text := testenv.File(t, "docs/operations.md")
	_, rest, ok := strings.Cut(string(text), "ACL SETUSER "+name+" on >PASSWORD ")
	line, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("docs/operations.md has no user %s", name)
	}
	return strings.Fields(line)
}

// as is a client with the rights of a documented user, on a Redis whose default user
// may do all.
func as(t *testing.T, server *redistest.Server, name string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "on", ">" + password}
	for _, right := range documentedUser(t, name) {
		args = append(args, right)
	}
	testenv.OK(t, server.Client().Do(ctx, args...).Err())
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr, Username: name, Password: password, Protocol: 2,
		DisableIdentity: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// TestEnvoysCannotWriteOverrides: with the stricter rights the plugin can set no override.
func TestEnvoysCannotWriteOverrides(t *testing.T) {
	t.Parallel()
	client := as(t, redistest.Start(t), "sluice")
	if err := client.Get(ctx, "rl:{o|a}:override").Err(); err != redis.Nil {
		t.Errorf("GET: %v", err)
	}
	for _, err := range []error{
		client.Set(ctx, "rl:{o|a}:override", "free", 0).Err(), client.Del(ctx, "rl:{o|a}:override").Err(),
		client.Set(ctx, "other", "x", 0).Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("Envoys may write it: %v", err)
		}
	}
}

// TestPeopleSetOverridesOnly holds what those may do who are on call.
func TestPeopleSetOverridesOnly(t *testing.T) {
	t.Parallel()
	client := as(t, redistest.Start(t), "alice")
	for _, err := range []error{
		client.Set(ctx, "rl:{o|a}:override", "block", time.Hour).Err(), client.Get(ctx, "rl:{o|a}:override").Err(),
		client.PTTL(ctx, "rl:{o|a}:override").Err(), client.Del(ctx, "rl:{o|a}:override", "rl:{o|a}:penalty").Err(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{
		client.Get(ctx, "rl:{o|a}:gcra:1s").Err(), client.Del(ctx, "rl:{o|a}:gcra:1s").Err(), client.FlushAll(ctx).Err(),
		client.Keys(ctx, "*").Err(), client.Eval(ctx, "return 1", nil).Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("they may do more: %v", err)
		}
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
