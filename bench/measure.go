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

// each is something of each process of a setup.
func (b *bench) each(of func(*subprocess) (float64, error)) (c cost, err error) {
	for _, one := range []struct {
		p  *subprocess
		to *float64
	}{{b.measured.envoy.subprocess, &c.Envoy}, {b.measured.service, &c.Service}, {b.redis.subprocess, &c.Redis}} {
		if one.p == nil {
			continue
		}
		if *one.to, err = of(one.p); err != nil {
			return c, err
		}
	}
	return c, nil
}

// snapshot has what was used and done so far.
type snapshot struct {
	micros           cost
	calls            callCounts
	reads, undecided int64
	others           others
}

func (b *bench) snapshot(ctx context.Context) (snap snapshot, err error) {
	if snap.calls, snap.reads, err = b.redis.work(ctx); err != nil {
		return snap, err
	}
	if snap.undecided, err = b.measured.envoy.failures(ctx); err != nil {
		return snap, err
	}
	snap.micros, err = b.each(func(p *subprocess) (float64, error) {
		used, err := p.cpu()
		return float64(used.Microseconds()), err
	})
	if err != nil {
		return snap, err
	}
	snap.others, err = b.others()
	return snap, err
}

// measure puts one load on the setup that is up.
func (b *bench) measure(ctx context.Context, l load, seconds int) (*sample, error) {
	s := b.measured
	before, err := b.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	o, err := l.run(ctx, s.envoy.url+s.path, seconds)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	after, err := b.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	n := float64(o.requests())
	if o.requests() == o.statuses[0] {
		return nil, s.envoy.explain(errors.New("no answers"))
	}
	result := &sample{
		RequestsPerSecond: (n - float64(o.statuses[0])) / o.seconds,
		CPUMicros: cost{
			Envoy:   (after.micros.Envoy - before.micros.Envoy) / n,
			Service: (after.micros.Service - before.micros.Service) / n,
			Redis:   (after.micros.Redis - before.micros.Redis) / n,
		},
		RedisCommands: float64(after.calls.sentSince(before.calls)) / n,
		RedisReads:    float64(after.reads-before.reads) / n,
		P50Micros:     o.quantileMicros(0.5),
		P99Micros:     o.quantileMicros(0.99),
		P999Micros:    o.quantileMicros(0.999),
		Undecided:     after.undecided - before.undecided,
		WrongStatus:   o.requests() - o.statuses[s.status/100*100],
	}
	result.Foreign, result.Stolen = after.others.since(before.others, elapsed)
	result.MemoryMB, err = b.each((*subprocess).residentMB)
	return result, err
}
