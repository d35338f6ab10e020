package config

import (
	"cmp"
	"strings"
)

// DefaultKeyPrefix begins the keys in Redis of a configuration that does not say otherwise.
const DefaultKeyPrefix = "rl"

func readRedis(v value) *Redis {
	o := v.readObject(redisFields)
	redis := &Redis{
		Cluster:            get(o, "cluster", readClusterName),
		KeyPrefix:          cmp.Or(get(o, "key_prefix", readKeyPrefix), DefaultKeyPrefix),
		TimeoutMicros:      o.number("timeout"),
		MaxStreamAgeMicros: o.number("max_stream_age"),
		Database:           o.number("database"),
	}
	readCredentials(o, redis)
	return redis
}

func readClusterName(v value) string {
	name, _ := v.readNonEmpty("the name of an Envoy cluster")
	return name
}

// readKeyPrefix reads what every key begins with. A brace would move the hash tag.
func readKeyPrefix(v value) string {
	prefix, ok := v.readNonEmpty(`a prefix such as "rl"`)
	if ok && (len(prefix) > maxNameBytes || !isPrintable(prefix) || strings.ContainsAny(prefix, " {}")) {
		v.mistake("%s cannot begin a key (want at most %d printable ASCII characters other than space, { and })",
			v.shown(), maxNameBytes)
	}
	return prefix
}

// readCredentials reads who logs in to Redis. An empty string is like an absent
// field. No message shows a value.
func readCredentials(o object, redis *Redis) {
	redis.Username, redis.Password, redis.PasswordEnv = o.text("username"), o.text("password"), o.text("password_env")
	if redis.Password != "" && redis.PasswordEnv != "" {
		o.mistake(`"password" and "password_env" exclude each other (want at most one)`)
	}
	if redis.Username != "" && redis.Password == "" && redis.PasswordEnv == "" {
		o.mistake(`"username" has no password (want "password" or "password_env" beside it)`)
	}
	if strings.ContainsAny(redis.PasswordEnv, "=\x00") {
		v, _ := o.field("password_env")
		v.mistake(`not the name of an environment variable (want one such as "REDIS_PASSWORD")`)
	}
}

// String is the mode as configurations write it.
func (m FailureMode) String() string { return failureModes[m] }

func readFailure(o object) Failure {
	return Failure{
		Mode:       FailureMode(o.number("mode")),
		MaxPending: o.number("max_pending"),
		Breaker:    readBreaker(o.object("breaker")),
	}
}

func readBreaker(o object) Breaker {
	b := Breaker{Failures: o.number("failures"), MinOpenMicros: o.number("min_open"), MaxOpenMicros: o.number("max_open")}
	if b.MinOpenMicros > b.MaxOpenMicros {
		o.mistake(`"min_open" %q is above "max_open" %q (want at most that)`,
			FormatDuration(b.MinOpenMicros), FormatDuration(b.MaxOpenMicros))
	}
	return b
}
