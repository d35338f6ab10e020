package config

import "strings"

// maxCount bounds counts that have no bound of their own in the design.
const maxCount = 1_000_000_000

// maxDatabase is the highest database number that Redis itself can be given.
const maxDatabase = 1<<31 - 1

func redis(o object) *Redis {
	v, ok := o.field("redis")
	if !ok {
		return nil
	}
	// Whatever is written here in place of an object may be a URL with a
	// password in it.
	v.secret = true
	redis := &Redis{KeyPrefix: "rl", TimeoutMicros: 50 * millisecond}
	o, ok = v.object("cluster", "key_prefix", "timeout", "username", "password", "password_env", "database")
	if !ok {
		return redis
	}
	if cluster, ok := o.required("cluster", "the name of the Envoy cluster that leads to Redis"); ok {
		cluster.secret = true
		redis.Cluster, _ = cluster.nonEmpty("the name of an Envoy cluster")
	}
	if prefix, ok := o.field("key_prefix"); ok {
		redis.KeyPrefix = keyPrefix(prefix)
	}
	o.readDuration("timeout", &redis.TimeoutMicros, millisecond, minute)
	o.readWhole("database", &redis.Database, 0, maxDatabase)
	credentials(o, redis)
	return redis
}

// keyPrefix reads what all keys begin with. A brace would move the hash tag.
func keyPrefix(v value) string {
	prefix, ok := v.nonEmpty(`a prefix such as "rl"`)
	if ok && (len(prefix) > maxName || !isPrintable(prefix) || strings.ContainsAny(prefix, " {}")) {
		v.mistake("%s cannot begin a key (want at most %d printable ASCII characters other than space, { and })", v.shown(), maxName)
	}
	return prefix
}

// credentials reads who logs in to Redis. Empty strings stand for none. No
// message shows what the fields hold.
func credentials(o object, redis *Redis) {
	o.readSecret("username", &redis.Username)
	o.readSecret("password", &redis.Password)
	o.readSecret("password_env", &redis.PasswordEnv)
	if redis.Password != "" && redis.PasswordEnv != "" {
		o.mistake(`"password" and "password_env" exclude each other (want at most one)`)
	}
	if redis.Username != "" && redis.Password == "" && redis.PasswordEnv == "" {
		o.mistake(`"username" stands without a password (want "password" or "password_env" beside it)`)
	}
	if strings.ContainsAny(redis.PasswordEnv, "=\x00") {
		v, _ := o.field("password_env")
		v.mistake(`not the name of an environment variable (want one such as "REDIS_PASSWORD")`)
	}
}

// readSecret reads an optional string that no message shows.
func (o object) readSecret(name string, into *string) {
	if v, ok := o.field(name); ok {
		v.secret = true
		if s, ok := v.text(); ok {
			*into = s
		}
	}
}

func failure(o object) Failure {
	f := Failure{
		Breaker:    Breaker{Failures: 5, MinOpenMicros: 100 * millisecond, MaxOpenMicros: 10 * second},
		MaxPending: 4096,
	}
	v, ok := o.field("failure")
	if !ok {
		return f
	}
	if o, ok := v.object("mode", "breaker", "max_pending"); ok {
		f.Mode = FailureMode(o.readChoice("mode", "allow", "deny", "local"))
		o.readWhole("max_pending", &f.MaxPending, 1, maxCount)
		breaker(o, &f.Breaker)
	}
	return f
}

func breaker(o object, b *Breaker) {
	v, ok := o.field("breaker")
	if !ok {
		return
	}
	o, ok = v.object("failures", "min_open", "max_open")
	if !ok {
		return
	}
	o.readWhole("failures", &b.Failures, 1, maxCount)
	o.readDuration("min_open", &b.MinOpenMicros, millisecond, day)
	o.readDuration("max_open", &b.MaxOpenMicros, millisecond, day)
	if b.MinOpenMicros > b.MaxOpenMicros {
		o.mistake(`"min_open" %q is above "max_open" %q (want at most that)`,
			FormatDuration(b.MinOpenMicros), FormatDuration(b.MaxOpenMicros))
	}
}
