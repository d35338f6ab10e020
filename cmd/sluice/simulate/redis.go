package simulate

import (
	"hash/fnv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// server is a Redis of Go twins that takes as long as a real one does, on one core for each
// shard.
type server struct {
	twin  *twinredis.Server
	nanos []int64 // by rule.LimitSet.ID: of Redis' core for a check that is admitted

	freeNanos   []int64 // by shard: when its core has done what it was sent
	readBy      []int64 // by shard: the last arrival it has read from
	arrivals    int64   // of commands, one or several together
	readyMicros int64   // when the last reply to that arrival is ready
	commands    int64
	received    int64 // bytes
	busyNanos   int64
}

func newServer(rules *rule.Set, shards int) *server {
	s := &server{
		twin:      twinredis.New(rules),
		freeNanos: make([]int64, shards),
		readBy:    make([]int64, shards),
	}
	s.twin.Begins = s.run
	for _, set := range rules.LimitSets {
		s.nanos = append(s.nanos, checkNanos(set.Plan.Limits()))
	}
	return s
}

// receive runs commands that arrive now. It returns the replies and when the last
// of them is ready.
func (s *server) receive(commands []byte, nowMicros int64) (replies []byte, readyMicros int64) {
	s.received += int64(len(commands))
	s.arrivals++
	s.readyMicros = nowMicros
	replies = s.twin.Receive(nil, commands, nowMicros)
	return replies, s.readyMicros
}

// run has the core of a command's shard work, and returns when it is done.
func (s *server) run(words [][]byte, nowMicros int64) (doneMicros int64) {
	s.commands++
	if len(words) < 4 {
		return nowMicros // AUTH, SELECT
	}
	nanos := int64(0) // of what gives slots back: it is in the check's
	if set, known := s.twin.SetOf(words); set != nil {
		nanos = s.nanos[set.ID]
	} else if !known { // the breaker's probe
		nanos = callNanos
	}
	doneMicros = s.occupy(words[3], nanos, nowMicros)
	s.readyMicros = max(s.readyMicros, doneMicros)
	return doneMicros
}

// occupy has the core of a key's shard work, and returns when it is done. What
// arrives together is read and answered once.
func (s *server) occupy(key []byte, nanos, nowMicros int64) (doneMicros int64) {
	shard := uint32(0)
	if len(s.freeNanos) > 1 {
		hash := fnv.New32a()
		hash.Write(key[:strings.LastIndexByte(string(key), '}')+1])
		shard = hash.Sum32() % uint32(len(s.freeNanos))
	}
	if s.readBy[shard] != s.arrivals {
		s.readBy[shard] = s.arrivals
		nanos += readNanos
	}
	free := &s.freeNanos[shard]
	*free = max(*free, nowMicros*1000) + nanos
	s.busyNanos += nanos
	return (*free + 999) / 1000
}

// memory is the memory of the counters now.
func (s *server) memory(nowMicros int64, rules *rule.Set) (keys int, bytes int64) {
	sizes := map[string]algo.Limit{}
	for _, set := range rules.LimitSets {
		for i, suffix := range set.KeySuffixes {
			sizes[suffix] = set.Limits[i].Limit
		}
	}
	s.twin.States(nowMicros, func(key string, state algo.State) {
		keys++
		limit, ok := sizes[key[strings.LastIndexByte(key, '}')+1:]]
		if !ok {
			bytes += penaltyBytes
			return
		}
		bytes += measurements[limit.Algorithm].bytes(&limit, state)
	})
	return keys, bytes
}
