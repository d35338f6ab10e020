package config

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/message"
)

// minSecretBytes is 128 bits, if they are random.
//
// Bound: bytes of the secret of keyed hashes, at least. Below it, the configuration is refused.
// Protects identities in Redis from being guessed.
const minSecretBytes = 16

// UsesHashSecret reports whether a key, or "per" of a limit, has a hash under the secret.
func (c *Config) UsesHashSecret() bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool {
		return slices.ContainsFunc(r.Identify(), func(part Component) bool { return part.Keyed })
	})
}

// TakeHashSecret finds the secret of keyed hashes in an environment, if an identity needs it. Without it
// identities would be hashed as anybody can hash them, so that is a mistake.
func (c *Config) TakeHashSecret(environment func(name string) (value string, ok bool)) error {
	if !c.UsesHashSecret() {
		return nil
	}
	value, ok := environment(c.HashSecretEnv)
	value = strings.TrimRight(value, "\r\n")
	problem := ""
	switch {
	case !ok:
		problem = `there is no environment variable ` + quoted(c.HashSecretEnv) +
			` (name it in host_env_keys of vm_config.environment_variables)`
	case len(value) < minSecretBytes:
		problem = message.Sprintf(`the environment variable %s has %d bytes (want a random secret of at least %d)`,
			quoted(c.HashSecretEnv), len(value), minSecretBytes)
	default:
		c.HashSecret = value
		return nil
	}
	return Mistakes{{Path: "hash_secret_env", Problem: problem}}
}
