package redis

import (
	"bytes"
	"math"
	"strconv"

	"github.com/sluiceproxy/sluice/redisresp"
)

// ServerStats is how the server itself is, from INFO
// (https://redis.io/docs/latest/commands/info/). What it does not tell is Unknown.
type ServerStats struct {
	UsedBytes, MaxBytes int64 // used_memory, and maxmemory: 0 is no bound
	EvictedKeys         int64 // since the server began
	Keys                int64 // of the database
}

// Unknown stands for a number that the server does not tell.
const Unknown = -1

// MemoryPercent is the part of its maxmemory that the server uses, in percent, rounded up; 0
// if it is unknown or unbounded.
func (v *ServerStats) MemoryPercent() int64 {
	if v.UsedBytes <= 0 || v.MaxBytes <= 0 {
		return 0
	}
	return int64(math.Ceil(min(100*float64(v.UsedBytes)/float64(v.MaxBytes), 1e9)))
}

// ServerStatsMicros is how far apart two readings of the ServerStats are, of all workers together.
//
// Bound: us between two readings of Redis' health, of all workers together. Below it, Redis is not
// asked. Protects Redis.
const ServerStatsMicros = 30_000_000

// serverStats is one worker's part in reading them.
type serverStats struct {
	reading   ServerStats // as far as the replies have come
	policy    string      // maxmemory-policy; "" if it is not known
	dueMicros int64       // when to look next whether it is this worker's turn
	refused   uint64      // the number of the stream on which INFO was refused last
}

// askStats asks Redis for its server stats, if it is this worker's turn, and not on a stream on which INFO
// was refused.
func (l *link) askStats(nowMicros int64) {
	v := &l.stats
	if !l.stream.open || l.rotation.inside || l.health.breaker.state != Closed || v.refused == l.stream.number ||
		nowMicros < v.dueMicros {
		return
	}
	v.dueMicros = nowMicros + ServerStatsMicros
	if !l.health.host.Turn(nowMicros) {
		return
	}
	v.reading = ServerStats{Unknown, Unknown, Unknown, Unknown}
	l.pipe.add(askingMemory, nowMicros, "INFO", "memory")
	l.pipe.add(askingStats, nowMicros, "INFO", "stats")
	l.pipe.add(askingKeys, nowMicros, "INFO", "keyspace")
}

// recentMicros is for how long after a request Redis is asked anyway. A tick comes within a
// second of each.
//
// Bound: us after a request. Beyond it, Redis is not asked how it is. Protects a Redis that is
// idle.
const recentMicros = 2_000_000

// What follows for the server stats.
var (
	noteMemory = &action{"note memory", func(l *link, _ *command, _ end) {
		s := &l.stats
		s.reading.UsedBytes, s.reading.MaxBytes = infoNumber(l.reply, "used_memory"), infoNumber(l.reply, "maxmemory")
		s.policy = infoField(l.reply, "maxmemory_policy")
	}}
	noteEvicted = &action{"note evicted", func(l *link, _ *command, _ end) {
		l.stats.reading.EvictedKeys = infoNumber(l.reply, "evicted_keys")
	}}
	// reportStats reads INFO keyspace, "db0:keys=12,expires=12,avg_ttl=0", which has no line for a
	// database without keys.
	reportStats = &action{"report stats", func(l *link, _ *command, e end) {
		v, r := &l.stats.reading, l.reply
		line := infoLine(r, "db"+strconv.FormatInt(l.options.Database, 10))
		keys, _, _ := bytes.Cut(line, []byte(","))
		v.Keys = number(bytes.TrimPrefix(keys, []byte("keys=")))
		if line == nil && r.Kind == redisresp.Bulk && bytes.Contains(r.Bytes, []byte("# Keyspace")) {
			v.Keys = 0
		}
		l.health.host.Examined(*v, e.nowMicros)
	}}
	// noteRefusal: INFO is not asked again on this connection.
	noteRefusal = &action{"no more INFO", func(l *link, _ *command, _ end) { l.stats.refused = l.stream.number }}
)

func infoNumber(r redisresp.Reply, name string) int64 { return number(infoLine(r, name)) }

// number reads a whole number that is not negative; anything else is Unknown.
func number(digits []byte) int64 {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || n < 0 {
		return Unknown
	}
	return n
}
