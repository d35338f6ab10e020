package main

import (
	"context"
	"errors"
	"time"
)

// cost is something for each process of a setup.
type cost struct {
	Envoy   float64 `json:"envoy"`
	Service float64 `json:"service"`
	Redis   float64 `json:"redis"`
}

// sample is one measurement of a setup under a load.
type sample struct {
	RequestsPerSecond float64 `json:"requests_per_second"`
	CPUMicros         cost    `json:"cpu_us_per_request"`
	MemoryMB          cost    `json:"memory_mb"`
	RedisCommands     float64 `json:"redis_commands_per_request"`
	RedisReads        float64 `json:"redis_reads_per_request"` // from its connections: about the writes of those who ask
	P50Micros         float64 `json:"p50_us,omitempty"`        // of an open loop
	P99Micros         float64 `json:"p99_us,omitempty"`
	P999Micros        float64 `json:"p999_us,omitempty"`
	Undecided         int64   `json:"undecided"`    // requests whose check failed or timed out
	WrongStatus       int64   `json:"wrong_status"` // answers of another status than the setup's, or none
	Foreign           float64 `json:"foreign_cpu"`  // CPU that others used meanwhile, in cores
	Stolen            float64 `json:"stolen"`       // the part of the machine's time that the hypervisor took
}

// snapshot has the processes' use so far.
type snapshot struct {
	envoy, service, redis time.Duration
	calls                 callCounts
	reads                 int64
	undecided             int64
	others                others
}

func (b *bench) snapshot(ctx context.Context, s *running) (snap snapshot, err error) {
	if snap.calls, err = b.redis.calls(ctx); err != nil {
		return snap, err
	}
	if snap.reads, err = b.redis.reads(ctx); err != nil {
		return snap, err
	}
	if snap.undecided, err = s.envoy.failures(ctx); err != nil {
		return snap, err
	}
	if snap.envoy, err = s.envoy.cpu(); err != nil {
		return snap, err
	}
	if snap.redis, err = b.redis.cpu(); err != nil {
		return snap, err
	}
	if s.service != nil {
		if snap.service, err = s.service.cpu(); err != nil {
			return snap, err
		}
	}
	snap.others, err = b.others()
	return snap, err
}

// measure puts one load on one setup.
func (b *bench) measure(ctx context.Context, s *running, l load, seconds int) (*sample, error) {
	before, err := b.snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	o, err := l.run(ctx, s.envoy.url, seconds)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	after, err := b.snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	n := o.requests()
	if n == o.statuses[0] {
		return nil, s.envoy.explain(errors.New("no answers"))
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	result := &sample{
		RequestsPerSecond: float64(n-o.statuses[0]) / o.seconds,
		CPUMicros: cost{
			Envoy: each(after.envoy - before.envoy), Service: each(after.service - before.service),
			Redis: each(after.redis - before.redis),
		},
		RedisCommands: float64(after.calls.sentSince(before.calls)) / float64(n),
		RedisReads:    float64(after.reads-before.reads) / float64(n),
		P50Micros:     o.quantileMicros(0.5),
		P99Micros:     o.quantileMicros(0.99),
		P999Micros:    o.quantileMicros(0.999),
		Undecided:     after.undecided - before.undecided,
		WrongStatus:   n - o.statuses[s.status/100*100],
	}
	result.Foreign, result.Stolen = after.others.since(before.others, elapsed)
	result.MemoryMB, err = b.memory(s)
	return result, err
}

func (b *bench) memory(s *running) (m cost, err error) {
	if m.Envoy, err = s.envoy.residentMB(); err != nil {
		return m, err
	}
	if m.Redis, err = b.redis.residentMB(); err != nil {
		return m, err
	}
	if s.service != nil {
		m.Service, err = s.service.residentMB()
	}
	return m, err
}
