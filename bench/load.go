package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/sluiceproxy/sluice/internal/process"
)

// load is a way to send requests.
type load struct {
	id          string
	connections int // closed loop: each sends its next request when the last is answered
	requests    int // closed loop: how many there are in all; 0: as many as there is time for
	rate        int // open loop: requests a second, sent whether others are answered or not
}

// outcome is the result of a load.
type outcome struct {
	seconds   float64
	statuses  map[int]int64 // answers by status class (200, 400, ...); 0: no answer came
	latencies []time.Duration
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
	if l.rate > 0 {
		return openLoop(ctx, url, l.rate, seconds)
	}
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

// openLoopConnections are more than an open loop needs as long as answers come
// within a tenth of a second; beyond, requests wait, and that is measured.
const openLoopConnections = 256

// openLoop sends requests at a fixed rate, evenly spaced, and measures each
// from its sending.
func openLoop(ctx context.Context, url string, rate, seconds int) (*outcome, error) {
	target := vegeta.Target{Method: http.MethodGet, URL: url, Header: http.Header{identityHeader: {identity}}}
	attacker := vegeta.NewAttacker(vegeta.Connections(openLoopConnections), vegeta.MaxConnections(openLoopConnections),
		vegeta.HTTP2(false), vegeta.Timeout(startLimit))
	duration := time.Duration(seconds) * time.Second
	o := &outcome{seconds: float64(seconds), statuses: map[int]int64{}, latencies: make([]time.Duration, 0, rate*seconds)}
	results := attacker.Attack(vegeta.NewStaticTargeter(target), vegeta.Rate{Freq: rate, Per: time.Second}, duration, "")
	for result := range results {
		if ctx.Err() != nil {
			attacker.Stop()
		}
		o.statuses[int(result.Code)/100*100]++
		o.latencies = append(o.latencies, result.Latency)
	}
	slices.Sort(o.latencies)
	return o, ctx.Err()
}

// quantileMicros is the latency that a part of the requests do not exceed.
func (o *outcome) quantileMicros(part float64) float64 {
	if len(o.latencies) == 0 {
		return 0
	}
	return float64(o.latencies[int(part*float64(len(o.latencies)-1))].Nanoseconds()) / 1000
}

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
	P50Micros         float64 `json:"p50_us,omitempty"` // of an open loop
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
