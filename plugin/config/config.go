// Package config reads the plugin's JSON configuration: Parse turns it into a
// Config or into every mistake in it, each with its path, value and remedy.
package config

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/message"
)

// Config is a whole, valid configuration with its defaults filled in.
type Config struct {
	// Mode is Shadow where no rule enforces anything, whatever its own mode is.
	Mode     Mode
	Redis    *Redis // nil: the embedded store
	Failure  Failure
	Response *Response // nil: the default answer
	Headers  Headers
	// DenyCacheSize is how many rejected keys a worker remembers; 0 turns the cache off.
	DenyCacheSize int64
	TopOffenders  *TopOffenders // nil: not tracked
	// RejectedState sets the filter state that says who was rejected and why.
	RejectedState bool
	// EnvoyRateLimited adds x-envoy-ratelimited to 429s.
	EnvoyRateLimited bool
	// RetryJitterPercent is by how much Retry-After may be longer than the wait.
	RetryJitterPercent int64
	// HashSecretEnv is the environment variable with the secret of keyed hashes; "": none.
	// HashSecret is the value that TakeHashSecret has found there.
	HashSecretEnv, HashSecret string
	Rules                     []Rule
	Quota                     *Quota // nil: callers cannot read what they have left
	// Expressions are the CEL texts of all rules, as often as they stand there.
	Expressions []Expression
}

// TopOffenders reports the identities that are rejected most.
type TopOffenders struct {
	Size           int64 // how many identities a worker follows
	IntervalMicros int64 // time between two reports
}

// Redis is where and how the counters are reached.
type Redis struct {
	Cluster       string // name of the Envoy cluster
	KeyPrefix     string
	TimeoutMicros int64
	// MaxStreamAgeMicros is after how long a stream is replaced by a new one; 0: never.
	MaxStreamAgeMicros int64
	Username           string
	Password           string
	PasswordEnv        string // environment variable of the VM that holds the password
	Database           int64
}

// FailureMode decides requests that Redis could not decide.
type FailureMode uint8

// The failure modes.
const (
	FailAllow FailureMode = iota
	FailDeny
	FailLocal
)

// Failure says what to do when Redis fails.
type Failure struct {
	Mode       FailureMode
	Breaker    Breaker
	MaxPending int64 // most requests that may wait for Redis in one worker
}

// UsesEmbeddedStore reports whether the embedded store decides anything: always, or
// checks that Redis has not decided.
func (c *Config) UsesEmbeddedStore() bool {
	return c.Redis == nil || slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Failure == FailLocal })
}

// UsesOverrides reports whether any rule does.
func (c *Config) UsesOverrides() bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Overrides })
}

// Breaker opens after Failures consecutive failures and probes with pauses
// that double from MinOpenMicros to MaxOpenMicros.
type Breaker struct {
	Failures      int64
	MinOpenMicros int64
	MaxOpenMicros int64
}

// Response replaces the default 429, field by field.
type Response struct {
	Status uint32 // 429 unless configured
	// ContentType is empty unless configured. Empty means the default body's own
	// type, or "text/plain; charset=utf-8" if HasBody.
	ContentType string
	// Body is the answer's body if HasBody, even when empty; otherwise the
	// default body stays.
	Body    string
	HasBody bool
	Headers [][2]string // in the configuration's order
}

// Headers selects the rate limit headers of responses.
type Headers struct {
	XRateLimit bool
	Draft      bool
	// ResetUnix makes X-RateLimit-Reset a Unix time instead of a delta.
	ResetUnix bool
}

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
	if ok && len(value) >= minSecretBytes {
		c.HashSecret = value
		return nil
	}
	problem := `there is no environment variable ` + quoted(c.HashSecretEnv) +
		` (name it in host_env_keys of vm_config.environment_variables)`
	if ok {
		problem = message.Sprintf(`the environment variable %s has %d bytes (want a random secret of at least %d)`,
			quoted(c.HashSecretEnv), len(value), minSecretBytes)
	}
	return Mistakes{{Path: "hash_secret_env", Problem: problem}}
}
