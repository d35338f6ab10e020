package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// turnItOff runs the commands of docs/runbook.md that shut Sluice out of Redis, and those that let it in
// again.
var turnItOff = plain{
	name: "turn it off",
	config: `{"redis": {"cluster": "redis", "timeout": "10s", "username": "sluice", "password": "` + password + `"},
		"deny_cache": {"size": 0},
		"rules": [{"name": "r", "key": [], "limits": [{"algorithm": "gcra", "limit": 1, ` + long + `}]}]}`,
	own: func(t *testing.T, s *setting) string {
		s.redis, s.client = redistest.StartWithUser(t, documentedRights, password)
		return s.redis.Addr
	},
	play: func(t *testing.T, s *setting) {
		commands := blocks(t, "docs/runbook.md", "", "sh redis")
		testenv.Same(t, "blocks for Redis in docs/runbook.md, off and on", len(commands), 2)
		redisCLI := func(commands string) {
			t.Helper()
			shell := exec.Command("bash", "-euc", `redis-cli() { "$CLI" -p "$PORT" -e "$@"; }`+"\n"+commands)
			shell.Env = append(os.Environ(), "REDISCLI_AUTH=admin", "CLI="+testenv.Tool(t, "redis-cli"),
				fmt.Sprint("PORT=", s.redis.Port))
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", commands, err, out)
			}
		}
		testenv.Same(t, "the first request", get(t, s.URL).status, http.StatusOK)
		awaitStatus(t, s, "/", http.StatusTooManyRequests)
		redisCLI(commands[0])
		awaitStatus(t, s, "/", http.StatusOK)
		for range 20 {
			testenv.Same(t, "a request while it is off", get(t, s.URL).status, http.StatusOK)
		}
		redisCLI(commands[1])
		awaitStatus(t, s, "/", http.StatusTooManyRequests)
	},
}
