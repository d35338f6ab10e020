package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

// load is a way to send requests: each connection sends its next one when the last is answered.
type load struct {
	connections int
	requests    int // how many there are in all; 0: as many as there is time for
}

// usualLoad is that of everything that is timed.
var usualLoad = load{connections: 16}

// outcome is the result of a load.
type outcome struct {
	seconds  float64
	statuses map[int]int64 // answers by status class (200, 400, ...); 0: no answer came
}

func (o *outcome) requests() (sum int64) {
	for _, n := range o.statuses {
		sum += n
	}
	return sum
}

// identity is the value of the identity header.
const identity = "bench"

func (l load) run(ctx context.Context, url string, seconds int) (*outcome, error) {
	// https://nghttp2.org/documentation/h2load.1.html
	length := []string{"--duration", strconv.Itoa(seconds)}
	if l.requests > 0 {
		length = []string{"--requests", strconv.Itoa(l.requests)}
	}
	args := append(length, "--h1", "--threads", "1", "--clients", strconv.Itoa(l.connections),
		"--header", identityHeader+": "+identity, url)
	h2load, err := process.Find("..", "h2load")
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, h2load, args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("h2load: %w\n%s", err, out)
	}
	o, err := parseH2load(string(out))
	if err != nil {
		return nil, fmt.Errorf("h2load: %w in\n%s", err, out)
	}
	o.seconds = float64(seconds)
	return o, nil
}

var (
	statusCodes = regexp.MustCompile(`status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
	brokenCalls = regexp.MustCompile(`(\d+) errored, (\d+) timeout`)
)

// parseH2load reads h2load's report. Requests that it could not finish are kept
// as of status 0.
func parseH2load(report string) (*outcome, error) {
	codes, broken := statusCodes.FindStringSubmatch(report), brokenCalls.FindStringSubmatch(report)
	if codes == nil || broken == nil {
		return nil, errors.New("no status codes")
	}
	o := &outcome{statuses: map[int]int64{}}
	for i, text := range append(codes[1:], broken[1:]...) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		status := 0
		if i < len(codes)-1 {
			status = (i + 2) * 100
		}
		o.statuses[status] += n
	}
	return o, nil
}

// cost is something for each process of a setup.
type cost struct {
	Envoy   float64 `json:"envoy"`
	Service float64 `json:"service"`
	Redis   float64 `json:"redis"`
}

// sample is one measurement of a setup.
type sample struct {
	RequestsPerSecond float64 `json:"requests_per_second"`
	CPUMicros         cost    `json:"cpu_us_per_request"`
	MemoryMB          cost    `json:"memory_mb"`
	RedisCommands     float64 `json:"redis_commands_per_request"`
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
	micros    cost
	calls     callCounts
	undecided int64
	others    others
}

func (b *bench) snapshot(ctx context.Context) (snap snapshot, err error) {
	if snap.calls, err = b.redis.work(ctx); err != nil {
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

// measure puts the usual load on the setup that is up.
func (b *bench) measure(ctx context.Context, seconds int) (*sample, error) {
	s := b.measured
	before, err := b.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	o, err := usualLoad.run(ctx, s.envoy.url+s.path, seconds)
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
		Undecided:     after.undecided - before.undecided,
		WrongStatus:   o.requests() - o.statuses[s.status/100*100],
	}
	result.Foreign, result.Stolen = after.others.since(before.others, elapsed)
	result.MemoryMB, err = b.each((*subprocess).residentMB)
	return result, err
}
