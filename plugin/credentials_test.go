package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

const secret = "s3cret-pa55"

// credentials is a configuration with further fields of "redis".
func credentials(more string) string {
	return `{"redis": {"cluster": "redis", "timeout": "50ms"` + more + `}, "rules": [` + perClient("a", 9) + `]}`
}

func TestPassword(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, redis, env string
		database         int
	}{
		{name: "in the configuration", redis: `, "password": "` + secret + `"`},
		{name: "in the environment", redis: `, "password_env": "REDIS_PASSWORD"`, env: secret},
		{
			name: "in the environment, from a file with a line end", redis: `, "password_env": "REDIS_PASSWORD"`,
			env: secret + "\n",
		},
		{
			name: "with a user and a database", redis: `, "username": "default", "password": "` + secret + `", "database": 3`,
			database: 3,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				if test.env != "" {
					w.env["REDIS_PASSWORD"] = test.env
				}
				r := w.startRedis("--requirepass", secret)
				i := w.load(credentials(test.redis))
				x := i.get("/", client("x")...)
				r.settle()
				w.expect("a request", x.end(), "200 allowed limit=9 remaining=8 reset=3600")
				c := r.Client().Conn()
				defer c.Close()
				c.Auth(t.Context(), secret)
				c.Select(t.Context(), test.database)
				if keys := c.Keys(t.Context(), "*").Val(); len(keys) != 1 {
					t.Errorf("database %d holds %q, want one key", test.database, keys)
				}
				if logs := w.logs(); len(logs) > 0 {
					t.Errorf("logged %q", logs)
				}
			})
		})
	}
}

// An environment variable that is not set is one warning, and no AUTH.
func TestPasswordEnvUnset(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(credentials(`, "password_env": "SLUICE_TEST_UNSET", "username": "someone"`))
		for n := range 2 {
			x := i.get("/", client("x")...)
			r.settle()
			w.expect("a request", x.end(), fmt.Sprintf("200 allowed limit=9 remaining=%d reset=3600", 8-n))
		}
		w.expectLogs("warn sluice: redis.password_env: ")
		if !w.logged("SLUICE_TEST_UNSET") {
			t.Errorf("logged %q, want the name of the variable", w.logs())
		}
	})
}

// Neither a refusal by Redis nor a server that repeats what it was sent brings a
// credential into the log, or the identity of a client.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	const user, key = "the-user", "the-api-key"
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis("--requirepass", "another")
		config := `{"redis": {"cluster": "redis", "timeout": "50ms", "username": "` + user +
			`", "password": "` + secret + `"},
			"failure": {"breaker": {"failures": 1}},
				"rules": [{"name": "a", "key": [{"header": "x-api-key", "hash": true}], ` + once + `}]}`
		i := w.load(config)
		x := i.get("/", "x-api-key", key)
		r.settle()
		i.wait(70 * time.Millisecond)
		w.expect("with a wrong password", x.end(), "200 failed:allow")
		if !w.logged("WRONGPASS") {
			t.Errorf("logged %q, want the reason", w.logs())
		}

		m := &wasmhost.Memory{}
		w.connect(m)
		i = w.load(config)
		x = i.get("/", "x-api-key", key)
		sent := string(m.Last().Take())
		m.Last().Reply("-ERR unknown command, with args beginning with: " + strings.Join(strings.Fields(sent), " ") + "\r\n")
		i.wait(70 * time.Millisecond)
		x.End()
		if !strings.Contains(sent, secret) {
			t.Errorf("sent %q, without the secret: this test shows nothing", sent)
		}
		if len(w.logs()) < 2 {
			t.Errorf("logged %q, and nothing of the second error: this test shows nothing", w.logs())
		}
		for _, text := range []string{user, secret, key} {
			if i := slices.IndexFunc(w.logs(), func(line string) bool { return strings.Contains(line, text) }); i >= 0 {
				t.Errorf("%q is in the log: %s", text, w.logs()[i])
			}
		}
		if strings.Contains(sent, key) {
			t.Errorf("a key marked hash was sent as it is: %q", sent)
		}
	})
}
