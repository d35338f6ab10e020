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

// usualConnections are those of everything that is timed. Each sends its next request when the last is
// answered.
const usualConnections = 16

// statuses are answers by the first digit of their status; at 0 how often no answer came.
type statuses [6]int64

func (s *statuses) all() (sum int64) {
	for _, n := range s {
		sum += n
	}
	return sum
}

// load sends requests, a number of them or as many as there is time for: "--requests" or "--duration" is
// the bound.
func load(ctx context.Context, url string, connections int, bound string, n int) (*statuses, error) {
	h2load, err := process.Find("..", "h2load")
	if err != nil {
		return nil, err
	}
	// https://nghttp2.org/documentation/h2load.1.html
	out, err := exec.CommandContext(ctx, h2load, bound, strconv.Itoa(n), "--h1", "--threads", "1",
		"--clients", strconv.Itoa(connections), "--header", identityHeader+": "+identity, url).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("h2load: %w\n%s", err, out)
	}
	return parseH2load(string(out))
}

var h2loadSums = regexp.MustCompile(
	`(\d+) errored, (\d+) timeout\nstatus codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`,
)

// parseH2load reads h2load's report.
func parseH2load(report string) (*statuses, error) {
	found := h2loadSums.FindStringSubmatch(report)
	if found == nil {
		return nil, fmt.Errorf("h2load: no status codes in\n%s", report)
	}
	var s statuses
	for i, digit := range []int{0, 0, 2, 3, 4, 5} {
		n, _ := strconv.ParseInt(found[i+1], 10, 64)
		s[digit] += n
	}
	return &s, nil
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
	}{{b.measured.envoy.subprocess, &c.Envoy}, {b.measured.beside, &c.Service}, {b.redis.subprocess, &c.Redis}} {
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
	seconds   cost // of CPU time
	calls     callCounts
	undecided int64
	others    others
}

func (b *bench) snapshot(ctx context.Context) (snap snapshot, err error) {
	if snap.calls, err = b.redis.work(ctx); err != nil {
		return snap, err
	}
	if snap.undecided, err = b.measured.envoy.failures(); err != nil {
		return snap, err
	}
	if snap.seconds, err = b.each((*subprocess).cpu); err != nil {
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
	answers, err := load(ctx, s.envoy.url+s.Path, usualConnections, "--duration", seconds)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	after, err := b.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	all := answers.all()
	if all == answers[0] {
		return nil, s.envoy.explain(errors.New("no answers"))
	}
	micros := func(before, after float64) float64 { return (after - before) * 1e6 / float64(all) }
	result := &sample{
		RequestsPerSecond: float64(all-answers[0]) / float64(seconds),
		CPUMicros: cost{
			micros(before.seconds.Envoy, after.seconds.Envoy), micros(before.seconds.Service, after.seconds.Service),
			micros(before.seconds.Redis, after.seconds.Redis),
		},
		RedisCommands: float64(after.calls.sentSince(before.calls)) / float64(all),
		Undecided:     after.undecided - before.undecided,
		WrongStatus:   all - answers[s.Status/100],
	}
	result.Foreign, result.Stolen = after.others.since(before.others, elapsed)
	result.MemoryMB, err = b.each((*subprocess).residentMB)
	return result, err
}
