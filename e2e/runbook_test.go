package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
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
		page := testenv.File(t, "docs/runbook.md")
		blocks := regexp.MustCompile("(?ms)^```sh redis$\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
		if len(blocks) != 2 {
			t.Fatalf("docs/runbook.md has %d blocks for Redis, want 2: off and on", len(blocks))
		}
		redisCLI := func(commands string) {
			t.Helper()
			shell := exec.Command("bash", "-euc", fmt.Sprintf("redis-cli() { \"$CLI\" -p %d -e \"$@\"; }\n%s", s.redis.Port, commands))
			shell.Env = append(os.Environ(), "REDISCLI_AUTH=admin", "CLI="+testenv.Tool(t, "redis-cli"))
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", commands, err, out)
			}
		}
		testenv.Same(t, "the first request", get(t, s.URL).status, http.StatusOK)
		awaitStatus(t, s, "/", http.StatusTooManyRequests)
		redisCLI(blocks[0][1])
		awaitStatus(t, s, "/", http.StatusOK)
		for range 20 {
			testenv.Same(t, "a request while it is off", get(t, s.URL).status, http.StatusOK)
		}
		redisCLI(blocks[1][1])
		awaitStatus(t, s, "/", http.StatusTooManyRequests)
	},
}
