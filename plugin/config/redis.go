package config

import "strings"

func readRedis(o object) *Redis {
	if !o.has("redis") {
		return nil
	}
	o = o.object("redis")
	redis := &Redis{}
	if cluster, ok := o.field("cluster"); ok {
		redis.readCluster(cluster)
	}
	redis.KeyPrefix = readKeyPrefix(o)
	redis.TimeoutMicros = o.number("timeout")
	redis.MaxStreamAgeMicros = readMaxStreamAge(o)
	redis.Database = o.number("database")
	readCredentials(o, redis)
	return redis
}

// readCluster reads the name of a cluster, or where the requests' routes have it.
func (r *Redis) readCluster(v value) {
	if !v.json.IsObject() {
		r.Cluster, _ = v.readNonEmpty("the name of an Envoy cluster")
		return
	}
	o := v.readObject(clusterFields)
	if path, ok := o.field("metadata"); ok {
		r.ClusterMetadata = strings.Join(readAttributePath(path), "\x00")
	}
	if name, ok := o.field("default"); ok {
		r.Cluster, _ = name.readNonEmpty("the name of an Envoy cluster")
	}
}

// readMaxStreamAge reads how old a stream becomes.
func readMaxStreamAge(o object) int64 {
	f := o.row("max_stream_age")
	v, ok := o.field("max_stream_age")
	if !ok {
		return f.byDefault
	}
	const none = 0
	age, ok := v.readDuration(none, maxDurationMicros)
	if ok && age != none && (age < f.low || age > f.high) {
		v.mistake(`%s is out of bounds (want "1s" to "1d", or "0s": streams live for ever)`, v.shown())
	}
	return age
}

// readKeyPrefix reads what every key begins with. A brace would move the hash tag.
func readKeyPrefix(o object) string {
	v, ok := o.field("key_prefix")
	if !ok {
		return "rl"
	}
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
