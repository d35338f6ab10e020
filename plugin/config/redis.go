package config

import "strings"

// maxCount bounds counts that need no bound of their own.
//
// Bound: of `max_pending`, `failures`, `segments`, `per`. Beyond it, the configuration is refused.
// Protects arithmetic.
const maxCount = 1_000_000_000

// maxDatabase is the highest database number that Redis itself can be given.
//
// Bound: number of Redis' database. Beyond it, the configuration is refused. Protects the
// connection: no Redis has more.
const maxDatabase = 1<<31 - 1

const (
	// Bound: us that a request waits for Redis, unless `timeout` says otherwise. Beyond it, the
	// failure mode decides. Protects requests from a Redis that hangs.
	defaultTimeoutMicros = 50 * millisecond
	// Bound: us of `timeout`. Beyond it, the configuration is refused. Protects requests.
	maxTimeoutMicros = minute
	// Bound: requests with commands in a worker's pipe, unless `max_pending` says otherwise. Beyond
	// it, further requests wait in the worker. Protects Redis and the worker's memory.
	defaultMaxPending = 4096
	// Bound: failures within a second, unless `failures` says otherwise. Beyond it, the breaker
	// opens. Protects requests from waiting for a Redis that fails.
	defaultFailures = 5
)

func readRedis(o object) *Redis {
	v, ok := o.field("redis")
	if !ok {
		return nil
	}
	// Whoever writes something else than an object here may write a URL with a
	// password in it.
	v.secret = true
	redis := &Redis{KeyPrefix: "rl", TimeoutMicros: defaultTimeoutMicros, MaxStreamAgeMicros: 10 * minute}
	o, ok = v.readObject("cluster", "key_prefix", "timeout", "username", "password", "password_env", "database", "max_stream_age")
	if !ok {
		return redis
	}
	if cluster, ok := o.required("cluster", "the name of the Envoy cluster that leads to Redis"); ok {
		cluster.secret = true
		redis.Cluster, _ = cluster.readNonEmpty("the name of an Envoy cluster")
	}
	if prefix, ok := o.field("key_prefix"); ok {
		redis.KeyPrefix = readKeyPrefix(prefix)
	}
	o.readDurationField("timeout", &redis.TimeoutMicros, millisecond, maxTimeoutMicros)
	readMaxStreamAge(o, &redis.MaxStreamAgeMicros)
	o.readWholeField("database", &redis.Database, 0, maxDatabase)
	readCredentials(o, redis)
	return redis
}

// readMaxStreamAge reads how old a stream becomes.
func readMaxStreamAge(o object, micros *int64) {
	v, ok := o.field("max_stream_age")
	if !ok {
		return
	}
	const none = 0
	switch age, ok := v.readDuration(none, maxDurationMicros); {
	case !ok:
	case age == none, age >= second && age <= day:
		*micros = age
	default:
		v.mistake(`%s is out of bounds (want "1s" to "1d", or "0s": streams live for ever)`, v.shown())
	}
}

// readKeyPrefix reads what every key begins with. A brace would move the hash tag.
func readKeyPrefix(v value) string {
	prefix, ok := v.readNonEmpty(`a prefix such as "rl"`)
	if ok && (len(prefix) > maxNameBytes || !isPrintable(prefix) || strings.ContainsAny(prefix, " {}")) {
		v.mistake("%s cannot begin a key (want at most %d printable ASCII characters other than space, { and })", v.shown(), maxNameBytes)
	}
	return prefix
}

// readCredentials reads who logs in to Redis. An empty string is like an absent
// field. No message shows a value.
func readCredentials(o object, redis *Redis) {
	o.readSecretField("username", &redis.Username)
	o.readSecretField("password", &redis.Password)
	o.readSecretField("password_env", &redis.PasswordEnv)
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

// readSecretField reads an optional string that no message shows.
func (o object) readSecretField(name string, into *string) {
	if v, ok := o.field(name); ok {
		v.secret = true
		if s, ok := v.readText(); ok {
			*into = s
		}
	}
}

var failureModes = words[FailureMode]{
	{FailAllow, "allow"},
	{FailDeny, "deny"},
	{FailLocal, "local"},
}

// String is the mode as configurations write it.
func (m FailureMode) String() string { return failureModes.textsOf([]FailureMode{m})[0] }

func readFailure(o object) Failure {
	f := Failure{
		Breaker:    Breaker{Failures: defaultFailures, MinOpenMicros: 100 * millisecond, MaxOpenMicros: 10 * second},
		MaxPending: defaultMaxPending,
	}
	v, ok := o.field("failure")
	if !ok {
		return f
	}
	if o, ok := v.readObject("mode", "breaker", "max_pending"); ok {
		readWordField(o, "mode", failureModes, &f.Mode)
		o.readWholeField("max_pending", &f.MaxPending, 1, maxCount)
		readBreaker(o, &f.Breaker)
	}
	return f
}

func readBreaker(o object, b *Breaker) {
	v, ok := o.field("breaker")
	if !ok {
		return
	}
	o, ok = v.readObject("failures", "min_open", "max_open")
	if !ok {
		return
	}
	o.readWholeField("failures", &b.Failures, 1, maxCount)
	o.readDurationField("min_open", &b.MinOpenMicros, millisecond, day)
	o.readDurationField("max_open", &b.MaxOpenMicros, millisecond, day)
	if b.MinOpenMicros > b.MaxOpenMicros {
		o.mistake(`"min_open" %q is above "max_open" %q (want at most that)`,
			FormatDuration(b.MinOpenMicros), FormatDuration(b.MaxOpenMicros))
	}
}
