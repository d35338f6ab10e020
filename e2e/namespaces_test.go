package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestUserOfEachNamespace: teams that share a Redis, each with a key_prefix and the documented ACL user for
// that prefix, have counters of their own, and none can read or change another's.
func TestUserOfEachNamespace(t *testing.T) {
	t.Parallel()
	exact := aclOf(t, exactACL)
	args := []string{"--user", "default", "on", ">admin", "~*", "&*", "+@all"}
	for _, team := range []string{"red", "blue"} {
		rights := strings.ReplaceAll(exact, "~rl:*", "~"+team+":*")
		args = append(append(args, "--user", team, "on", ">"+team+"-"+password), strings.Fields(rights)...)
	}
	server := redistest.Start(t, args...)
	config := func(team, prefix string) string {
		return fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "10s", "key_prefix": %q, "username": %q,
			"password": "%s-%s"}, "failure": {"mode": "deny"}, "rules": [{"name": "r", "key": [{"header": "x-user"}],
			"limits": [{"algorithm": "fixed_window", "limit": 5, `+long+`}]}]}`, prefix, team, team, password)
	}
	s := start(t, config("red", "red"), envoytest.Options{
		Redis: []string{server.Addr}, Workers: 1,
		Beside: map[string]string{"blue": config("blue", "blue"), "red as blue": config("red", "blue")},
	})
	for team, url := range map[string]string{"red": s.URL, "blue": s.Beside["blue"]} {
		got := burst(t, 8, 1, []string{url}, "x-user: u")
		expectTally(t, team, got, tally{http.StatusOK: 5, http.StatusTooManyRequests: 3})
	}
	red := redis.NewClient(&redis.Options{
		Addr: server.Addr, Username: "red", Password: "red-" + password, Protocol: 2, DisableIdentity: true,
	})
	t.Cleanup(func() { red.Close() })
	for key, want := range map[string]string{"red": "", "blue": "NOPERM"} {
		key += ":{r|u}:fixed_window:366d"
		for _, command := range [][]any{{"GET", key}, {"DEL", key}, {"SET", key, "0"}} {
			err := red.Do(ctx, command...).Err()
			testenv.Same(t, fmt.Sprintf("%v: %v: that red may not", command, err),
				strings.HasPrefix(fmt.Sprint(err), "NOPERM"), want != "")
		}
	}
	expectTally(t, "red under blue's prefix", burst(t, 3, 1, []string{s.Beside["red as blue"]}, "x-user: u"),
		tally{http.StatusServiceUnavailable: 3})
	testenv.Same(t, "that the log says why", strings.Contains(s.Log(), "NOPERM"), true)
}
