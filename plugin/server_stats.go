package main

import (
	"encoding/binary"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/redis"
)

// vitals is the workers' shared knowledge of a Redis' health. They keep it in shared data, so that
// one of them asks at a time, each eviction counts once, and each warning is logged once.
type vitals struct {
	host    host
	cluster string
	key     string // of the shared data
	metrics *metrics
}

// vitalsRecord is the shared data. Times are those of Envoy's steady clock, which all its
// workers have, in microseconds.
type vitalsRecord struct {
	askMicros         int64 // the next worker may ask from then on
	evictedKeys       int64 // as last heard; redis.Unknown: never
	heardMicros       int64 // when that was
	warnEvictedMicros int64 // the log may say from then on that keys were evicted
	warnMemoryMicros  int64 // and that memory is nearly used up
}

// Bound: us between two warnings of one kind about Redis' health. Below it, a warning is left out.
// Protects the log.
const warnAgainMicros = 3_600_000_000

// newVitals makes sure that the record exists: Envoy's compare-and-swap covers changes of a
// record, but not its creation.
func newVitals(h host, cluster string, m *metrics) *vitals {
	v := &vitals{host: h, cluster: cluster, key: "sluice.vitals." + cluster, metrics: m}
	if _, _, ok := v.load(); !ok {
		v.store(vitalsRecord{evictedKeys: redis.Unknown}, 0)
	}
	return v
}

// load reads the record, and what store needs to change it.
func (v *vitals) load() (r vitalsRecord, cas uint32, ok bool) {
	value, cas, err := sharedData{v.host}.Get(v.key)
	fields := r.fields()
	if err != nil || len(value) != 8*len(fields) {
		return r, cas, false
	}
	for i, field := range fields {
		*field = int64(binary.LittleEndian.Uint64(value[8*i:]))
	}
	return r, cas, true
}

// store changes the record, unless another worker has meanwhile.
func (v *vitals) store(r vitalsRecord, cas uint32) bool {
	var value []byte
	for _, field := range r.fields() {
		value = binary.LittleEndian.AppendUint64(value, uint64(*field))
	}
	return sharedData{v.host}.Set(v.key, value, cas) == nil
}

// fields are those of the record, in their order in shared data.
func (r *vitalsRecord) fields() [5]*int64 {
	return [...]*int64{&r.askMicros, &r.evictedKeys, &r.heardMicros, &r.warnEvictedMicros, &r.warnMemoryMicros}
}

// turn reports whether this worker is to ask now.
func (v *vitals) turn(nowMicros int64) bool {
	r, cas, ok := v.load()
	if !ok || nowMicros < r.askMicros {
		return false
	}
	r.askMicros = nowMicros + redis.ServerStatsMicros
	return v.store(r, cas)
}

// examined counts and shows what the server has said, and warns of it.
func (v *vitals) examined(told redis.ServerStats, nowMicros int64) {
	for range maxSharedTries {
		before, cas, ok := v.load()
		if !ok {
			return
		}
		after, news := before.hear(told, nowMicros)
		if v.store(after, cas) {
			v.metrics.vitals(v.cluster, told, news.evicted)
			v.warn(news)
			return
		}
	}
}

// vitalsNews says how a reading differs from the one before.
type vitalsNews struct {
	evicted       int64 // keys since the last reading
	withinMicros  int64 // how long ago that was
	memoryPercent int64 // how much of maxmemory is used; 0: nothing to warn of
	warnEvicted   bool
}

// Bound: percent of Redis' memory in use. Beyond it, the log warns. Protects limits from evictions.
const memoryWarning = 90

// hear is the record after a reading. A number of evictions that is smaller than the last
// one is another server's, of which this is the first.
func (r vitalsRecord) hear(told redis.ServerStats, nowMicros int64) (after vitalsRecord, news vitalsNews) {
	if r.evictedKeys != redis.Unknown && told.EvictedKeys > r.evictedKeys {
		news.evicted, news.withinMicros = told.EvictedKeys-r.evictedKeys, nowMicros-r.heardMicros
	}
	if told.EvictedKeys != redis.Unknown {
		r.evictedKeys, r.heardMicros = told.EvictedKeys, nowMicros
	}
	if news.evicted > 0 && nowMicros >= r.warnEvictedMicros {
		news.warnEvicted, r.warnEvictedMicros = true, nowMicros+warnAgainMicros
	}
	if share := told.MemoryPercent(); share > memoryWarning && nowMicros >= r.warnMemoryMicros {
		news.memoryPercent, r.warnMemoryMicros = share, nowMicros+warnAgainMicros
	}
	return r, news
}

// warn logs what a reading has brought.
func (v *vitals) warn(news vitalsNews) {
	name := "sluice: redis " + strconv.Quote(v.cluster)
	if news.warnEvicted {
		v.host.logLine(logWarn, name+" has evicted "+strconv.FormatInt(news.evicted, 10)+" keys in "+
			strconv.FormatInt((news.withinMicros+500_000)/1_000_000, 10)+
			"s: what they counted begins anew (give Redis more memory, or fewer keys; logged at most once an hour)")
	}
	if news.memoryPercent > 0 {
		v.host.logLine(logWarn, name+" uses "+strconv.FormatInt(news.memoryPercent, 10)+
			" % of its maxmemory (give Redis more memory, or fewer keys; logged at most once an hour)")
	}
}
