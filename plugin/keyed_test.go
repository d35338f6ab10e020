package main

import (
	"testing"
)

// hashVariable is where the secret of keyed hashes is.
const hashVariable = "SLUICE_HASH_SECRET"

// keyedRules is a configuration with a rule for each phone number, hashed under the secret.
const keyedRules = `{"hash_secret_env": "` + hashVariable + `", "rules": [{"name": "a",
	"key": [{"header": "x-phone", "hash": "keyed"}],
	"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}]}`

// keyedPerRules is a configuration with a limit for each phone number of a client.
const keyedPerRules = `{"hash_secret_env": "` + hashVariable + `", "rules": [{"name": "a",
	"key": [{"header": "x-client"}], "limits_by": {"source": {"header": "x-plan"}, "default": "free", "values": {"free": [
	{"algorithm": "fixed_window", "limit": 9, "window": "1h", "name": "each",
		"per": [{"header": "x-phone", "hash": "keyed"}]}]}}}]}`

// TestKeyedHashWithoutSecret: a configuration is refused whose identities anybody could hash.
func TestKeyedHashWithoutSecret(t *testing.T) {
	t.Parallel()
	for secret, says := range map[string]string{
		"": `critical sluice: hash_secret_env: there is no environment variable "SLUICE_HASH_SECRET" ` +
			`(name it in host_env_keys of vm_config.environment_variables)`,
		"0123456789abcde\n": `critical sluice: hash_secret_env: the environment variable "SLUICE_HASH_SECRET" has ` +
			`15 bytes (want a random secret of at least 16)`,
	} {
		for where, rules := range map[string]string{"key": keyedRules, "per": keyedPerRules} {
			t.Run(where, func(t *testing.T) {
				eachWorld(t, func(t *testing.T, w *worker) {
					if secret != "" {
						w.Env[hashVariable] = secret
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
