package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// What a user in Redis may do is TestDocumentedACL's, in a database of its own. deploy/envoy has one with TLS.

const password = "correct-horse"

// documentedRights is a file that says what a user in Redis needs, "sluice".
const documentedRights = "../deploy/envoy/tls-acl.yaml"

// asUser is the format of a plugin configuration with members of "redis" and a limit of 3.
const asUser = `{"redis": {"cluster": "redis", "timeout": "10s", %s},
	"failure": {"mode": "deny", "breaker": {"max_open": "500ms"}},
	"rules": [{"name": "r", "key": [{"query": "u"}], "limits": [{"algorithm": "gcra", "limit": 3, ` + long + `},
	{"algorithm": "sliding_window_log", "limit": 3, "window": "1d"}]}]}`

// expectLimited wants the limit of asUser.
func expectLimited(t *testing.T, s *setting) {
	t.Helper()
	got := burst(t, 5, 2, []string{s.URL + "/?u=a"})
	expectTally(t, "5 requests", got, tally{http.StatusOK: 3, http.StatusTooManyRequests: 2})
	if strings.Contains(s.Log(), password) {
		t.Error("the log has the password")
	}
}

// passwordFromEnvironment: among ten other variables, of up to a thousand characters, the password
// is found, and the keys are the rule's: reading them leaves the plugin's memory alone.
var passwordFromEnvironment = plain{
	name:   "password from the environment",
	config: fmt.Sprintf(asUser, `"username": "sluice", "password_env": "REDIS_PASSWORD"`),
	own: func(t *testing.T, s *setting) string {
		s.redis, s.client = redistest.StartWithUser(t, documentedRights, password)
		return s.redis.Addr
	},
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
		variables := map[string]any{"REDIS_PASSWORD": password}
		for n := range 10 {
			variables[fmt.Sprint("VARIABLE_", n)] = strings.Repeat("x", n*n*12)
		}
		c.Set(envoyconf.Limiter+"/vm_config/vm_id", "environment")
		c.Set(envoyconf.Limiter+"/vm_config/environment_variables", map[string]any{"key_values": variables})
	},
	play: func(t *testing.T, s *setting) {
		expectLimited(t, s)
		testenv.SameList(t, "keys", s.keys(t), []string{"rl:{r|a}:gcra:366d", "rl:{r|a}:sliding_window_log:1d"})
	},
}

// absentPasswordVariable: one warning, and no AUTH.
var absentPasswordVariable = plain{
	name:   "absent password variable",
	config: fmt.Sprintf(asUser, `"password_env": "NO_SUCH_VARIABLE"`),
	play: func(t *testing.T, s *setting) {
		expectLimited(t, s)
		warnings := strings.Count(s.Log(), "no environment variable NO_SUCH_VARIABLE")
		testenv.Same(t, "lines about NO_SUCH_VARIABLE", warnings, 1)
	},
}

// wrongPassword: the mode applies, the log says why, without the password, and Redis is not stormed.
// Once the password is right there, it decides.
var wrongPassword = plain{
	name:   "wrong password",
	config: fmt.Sprintf(asUser, `"password": "`+password+`"`),
	own:    redisWith("--requirepass", "another"),
	play: func(t *testing.T, s *setting) {
		client := redis.NewClient(&redis.Options{Addr: s.redis.Addr, Password: "another"})
		t.Cleanup(func() { client.Close() })
		l := startLoad(t, 4, s.URL+"/?u=a")
		l.await(1000, http.StatusServiceUnavailable)
		connections, err := strconv.Atoi(client.InfoMap(ctx, "stats").Item("Stats", "total_connections_received"))
		testenv.OK(t, err)
		testenv.Within(t, "the number of connections", connections, 1, 100)
		testenv.OK(t, client.ConfigSet(ctx, "requirepass", password).Err())
		l.await(3, http.StatusOK)
		l.await(1, http.StatusTooManyRequests)
		l.stop()
		testenv.Within(t, "lines with WRONGPASS", strings.Count(s.Log(), "WRONGPASS"), 1, 10)
		testenv.Same(t, "that the log has the password", strings.Contains(s.Log(), password), false)
	},
}
