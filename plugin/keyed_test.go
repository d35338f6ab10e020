package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// hashSecret is a secret of keyed hashes, and hashVariable where it is.
const hashSecret, hashVariable = "0123456789abcdef0123456789abcdef", "SLUICE_HASH_SECRET"

// keyedRules is a configuration with a rule for each phone number, hashed under the secret.
func keyedRules(redis string) string {
	return `{` + redis + `"hash_secret_env": "` + hashVariable + `", "rules": [{"name": "a",
		"key": [{"header": "x-phone", "hash": "keyed"}],
		"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}]}`
}

// keyedPerRules is a configuration with a limit for each phone number of a client.
const keyedPerRules = `{"hash_secret_env": "` + hashVariable + `", "rules": [{"name": "a",
	"key": [{"header": "x-client"}], "limits_by": {"source": {"header": "x-plan"}, "default": "free", "values": {"free": [
	{"algorithm": "fixed_window", "limit": 9, "window": "1h", "name": "each",
		"per": [{"header": "x-phone", "hash": "keyed"}]}]}}}]}`

// keyedDigest is how a key has a value: 160 bits of its HMAC-SHA-256.
func keyedDigest(secret, value string) string {
	code := hmac.New(sha256.New, []byte(secret))
	code.Write([]byte(value))
	return hex.EncodeToString(code.Sum(nil)[:20])
}

// TestKeyedHash: Redis sees HMACs under the secret; an end of line after it does not count.
func TestKeyedHash(t *testing.T) {
	t.Parallel()
	for name, variable := range map[string]string{"as it is": hashSecret, "from a file": hashSecret + "\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				w.setenv(hashVariable, variable)
				r := w.startRedis()
				i := w.load(keyedRules(`"redis": {"cluster": "redis"}, `))
				for n := range 2 {
					x := i.get("/", "x-phone", "+49 30 123456")
					r.settle()
					testenv.Same(t, "the second request counts with the first", x.end().Remaining, 8-n)
				}
				keys := r.Client().Keys(t.Context(), "*").Val()
				testenv.Same(t, "the keys", strings.Join(keys, " "),
					"rl:{a|"+keyedDigest(hashSecret, "+49 30 123456")+"}:fixed_window:1h")
			})
		})
	}
}

// TestKeyedHashWithoutRedis: the embedded store tells identities apart by the same hashes.
func TestKeyedHashWithoutRedis(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		w.setenv(hashVariable, hashSecret)
		i := w.load(keyedRules(""))
		for _, c := range []struct {
			phone     string
			remaining int
		}{{"1", 8}, {"1", 7}, {"2", 8}, {"1", 6}} {
			testenv.Same(t, "of "+c.phone, i.get("/", "x-phone", c.phone).end().Remaining, c.remaining)
		}
	})
}

// TestKeyedHashWithoutSecret: a configuration is refused whose identities anybody could hash.
func TestKeyedHashWithoutSecret(t *testing.T) {
	t.Parallel()
	for secret, says := range map[string]string{
		"": `critical sluice: hash_secret_env: there is no environment variable "SLUICE_HASH_SECRET" ` +
			`(name it in host_env_keys of vm_config.environment_variables)`,
		"0123456789abcde\n": `critical sluice: hash_secret_env: the environment variable "SLUICE_HASH_SECRET" has ` +
			`15 bytes (want a random secret of at least 16)`,
	} {
		for where, rules := range map[string]string{"key": keyedRules(""), "per": keyedPerRules} {
			t.Run(where, func(t *testing.T) {
				eachWorld(t, func(t *testing.T, w *worker) {
					if secret != "" {
						w.setenv(hashVariable, secret)
					}
					if _, err := w.start(rules); err == nil {
						t.Error("the configuration is taken")
					}
					w.expectLogs(says)
				})
			})
		}
	}
}

// TestOneValueHashedDifferently: rules that hash one value in their own ways do not share what they write.
func TestOneValueHashedDifferently(t *testing.T) {
	t.Parallel()
	const rule = `{"name": %q, "key": [{"header": "x-phone", "hash": %s}],
		"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}`
	plain := sha256.Sum256([]byte("1"))
	eachWorld(t, func(t *testing.T, w *worker) {
		w.setenv(hashVariable, hashSecret)
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "hash_secret_env": "` + hashVariable + `", "rules": [` +
			fmt.Sprintf(rule, "plain", "false") + `, ` + fmt.Sprintf(rule, "hash", "true") + `, ` +
			fmt.Sprintf(rule, "keyed", `"keyed"`) + `]}`)
		x := i.get("/", "x-phone", "1")
		r.settle()
		x.end()
		keys := r.Client().Keys(t.Context(), "*").Val()
		slices.Sort(keys)
		testenv.SameList(t, "the keys", keys, []string{
			"rl:{hash|" + hex.EncodeToString(plain[:20]) + "}:fixed_window:1h",
			"rl:{keyed|" + keyedDigest(hashSecret, "1") + "}:fixed_window:1h",
			"rl:{plain|1}:fixed_window:1h",
		})
	})
}
