package e2e

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestTurnItOff runs the commands of docs/runbook.md that shut Sluice out of Redis, and those that let it in
// again.
func TestTurnItOff(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/runbook.md")
	blocks := regexp.MustCompile("(?ms)^```sh redis$\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/runbook.md has %d blocks for Redis, want 2: off and on", len(blocks))
	}
	exact, _ := documentedACL(t)
	server := redistest.Start(t, aclUser(exact)...)
	host, port, err := net.SplitHostPort(server.Addr)
	testenv.SameError(t, "the address of Redis", err, nil)
	redisCLI := func(commands string) {
		t.Helper()
		shell := exec.Command("bash", "-euc", `redis-cli() { "$CLI" -h `+host+` -p `+port+` -e "$@"; }
`+commands)
		shell.Env = append(os.Environ(), "REDISCLI_AUTH=admin", "CLI="+testenv.Tool(t, "redis-cli"))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", commands, err, out)
		}
	}
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "10s", "username": "sluice", "password": "`+password+`"},
		"deny_cache": {"size": 0},
		"rules": [{"name": "r", "key": [], "limits": [{"algorithm": "gcra", "limit": 1, `+long+`}]}]}`,
		envoytest.Options{Redis: []string{server.Addr}})
	testenv.Same(t, "the first request", get(t, s.URL).status, http.StatusOK)
	awaitStatus(t, s, "/", http.StatusTooManyRequests)
	redisCLI(blocks[0][1])
	awaitStatus(t, s, "/", http.StatusOK)
	for range 20 {
		testenv.Same(t, "a request while it is off", get(t, s.URL).status, http.StatusOK)
	}
	redisCLI(blocks[1][1])
	awaitStatus(t, s, "/", http.StatusTooManyRequests)
}
