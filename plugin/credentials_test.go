package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

const secret = "s3cret-pa55"

// Neither a refusal by Redis nor a server that repeats what it was sent brings a
// credential into the log, or the identity of a client.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	const user, key = "the-user", "the-api-key"
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		r.Password = "another"
		config := `{"redis": {"cluster": "redis", "timeout": "50ms", "username": "` + user +
			`", "password": "` + secret + `"},
			"failure": {"breaker": {"failures": 1}},
				"rules": [{"name": "a", "key": [{"header": "x-api-key", "hash": true}], ` + once + `}]}`
		i := w.load(config)
		x := i.get("/", "x-api-key", key)
		r.settle()
		i.wait(70 * time.Millisecond)
		testenv.Same(t, "with a wrong password", x.end(), "200 failed:allow")
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
