package main

import (
	"encoding/binary"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// vitals is what the workers know together of a Redis' health. They keep it in shared data, so that
// one of them asks at a time, each eviction counts once, and each warning is logged once. Times are
// those of Envoy's steady clock, which all its workers have, in microseconds.
type vitals struct {
	askMicros         int64 // the next worker may ask from then on
	evictedKeys       int64 // as last heard; redis.Unknown: never
	heardMicros       int64 // when that was
	warnEvictedMicros int64 // the log may say from then on that keys were evicted
	warnMemoryMicros  int64 // and that memory is nearly used up
}

// Bound: us between two warnings of one kind about Redis' health. Below it, a warning is left out.
// Protects the log.
const warnAgainMicros = 3_600_000_000

// Bound: percent of Redis' memory in use. Beyond it, the log warns. Protects limits from evictions.
const memoryWarning = 90

// fields are in their order in shared data.
func (v *vitals) fields() [5]*int64 {
	return [...]*int64{&v.askMicros, &v.evictedKeys, &v.heardMicros, &v.warnEvictedMicros, &v.warnMemoryMicros}
}

// loadVitals reads the record, and what storeVitals needs to change it.
func (s *stream) loadVitals() (v vitals, cas uint32, ok bool) {
	value, cas, err := sharedData{s.host}.Get("sluice.vitals." + s.cluster)
	fields := v.fields()
	if err != nil || len(value) != 8*len(fields) {
		return v, cas, false
	}
	for i, field := range fields {
		*field = int64(binary.LittleEndian.Uint64(value[8*i:]))
	}
	return v, cas, true
}

// storeVitals changes the record, unless another worker has meanwhile.
func (s *stream) storeVitals(v vitals, cas uint32) bool {
	var value []byte
	for _, field := range v.fields() {
		value = binary.LittleEndian.AppendUint64(value, uint64(*field))
	}
	return sharedData{s.host}.Set("sluice.vitals."+s.cluster, value, cas) == nil
}

// Turn implements redis.Host: whether this worker is to ask now.
func (s *stream) Turn(nowMicros int64) bool {
	v, cas, ok := s.loadVitals()
	if !ok || nowMicros < v.askMicros {
		return false
	}
	v.askMicros = nowMicros + redis.ServerStatsMicros
	return s.storeVitals(v, cas)
}

// Examined implements redis.Host. It counts and shows what the server has said, and warns of it.
func (s *stream) Examined(told redis.ServerStats, nowMicros int64) {
	for range maxSharedTries {
		v, cas, ok := s.loadVitals()
		if !ok {
			return
		}
		// A number of evictions that is smaller than the last one is another server's, of which this is the first.
		evicted, withinMicros := int64(0), int64(0)
		if v.evictedKeys != redis.Unknown && told.EvictedKeys > v.evictedKeys {
			evicted, withinMicros = told.EvictedKeys-v.evictedKeys, nowMicros-v.heardMicros
		}
		if told.EvictedKeys != redis.Unknown {
			v.evictedKeys, v.heardMicros = told.EvictedKeys, nowMicros
		}
		warnEvicted := evicted > 0 && nowMicros >= v.warnEvictedMicros
		if warnEvicted {
			v.warnEvictedMicros = nowMicros + warnAgainMicros
		}
		percent := told.MemoryPercent()
		warnMemory := percent > memoryWarning && nowMicros >= v.warnMemoryMicros
		if warnMemory {
			v.warnMemoryMicros = nowMicros + warnAgainMicros
		}
		if !s.storeVitals(v, cas) {
			continue
		}

		m := s.metrics
		m.batch.Add(m.redisEvicted, evicted)
		m.show(&m.redisUsed, metric.Of(metric.RedisMemory, s.cluster, "used"), told.UsedBytes)
		m.show(&m.redisMax, metric.Of(metric.RedisMemory, s.cluster, "max"), told.MaxBytes)
		m.show(&m.redisKeys, metric.Of(metric.RedisKeys, s.cluster), told.Keys)
		name := "redis " + strconv.Quote(s.cluster)
		if warnEvicted {
			s.Warn(name + " has evicted " + strconv.FormatInt(evicted, 10) + " keys in " +
				strconv.FormatInt((withinMicros+500_000)/1_000_000, 10) +
				"s: what they counted begins anew (give Redis more memory, or fewer keys; logged at most once an hour)")
		}
		if warnMemory {
			s.Warn(name + " uses " + strconv.FormatInt(percent, 10) +
				" % of its maxmemory (give Redis more memory, or fewer keys; logged at most once an hour)")
		}
		return
	}
}
