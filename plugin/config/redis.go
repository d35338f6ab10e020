package config

import (
	"cmp"
	"strings"
)

// DefaultKeyPrefix begins the keys in Redis of a configuration that does not say otherwise.
const DefaultKeyPrefix = "rl"

func readRedis(v value) *Redis {
	o := v.readObject(redisFields)
	redis := &Redis{Cluster: o.text("cluster"), KeyPrefix: cmp.Or(o.text("key_prefix"), DefaultKeyPrefix)}
	// Every key begins with the prefix, in which a brace would move the hash tag.
	prefix := redis.KeyPrefix
	if len(prefix) > maxNameBytes || !isPrintable(prefix) || strings.ContainsAny(prefix, " {}") {
		at, _ := o.field("key_prefix")
		at.mistake("%s cannot begin a key (want at most %d printable ASCII characters other than space, { and })",
			at.shown(), maxNameBytes)
	}
	redis.TimeoutMicros = o.number("timeout")
	redis.MaxStreamAgeMicros = o.number("max_stream_age")
	redis.Database = o.number("database")

	// An empty string is like an absent field. No message shows a value.
	redis.Username, redis.Password = o.text("username"), o.text("password")
	redis.PasswordEnv = o.variable("password_env", "REDIS_PASSWORD")
	if redis.Password != "" && redis.PasswordEnv != "" {
		o.mistake(`"password" and "password_env" exclude each other (want at most one)`)
	}
	if redis.Username != "" && redis.Password == "" && redis.PasswordEnv == "" {
		o.mistake(`"username" has no password (want "password" or "password_env" beside it)`)
	}
	return redis
}

// String is the mode as configurations write it.
func (m FailureMode) String() string { return failureModes[m] }
