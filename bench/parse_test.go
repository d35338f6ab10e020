package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestParseH2load(t *testing.T) {
	t.Parallel()
	const head = "finished in 2.00s, 10 req/s, 5MB/s\nrequests: 3 total, 3 started, 3 done, 1 succeeded, 2 failed, "
	tests := map[string]struct {
		report string
		want   *statuses // nil: an error
	}{
		"answers": {
			head + "0 errored, 0 timeout\nstatus codes: 1 2xx, 0 3xx, 2 4xx, 0 5xx\n",
			&statuses{2: 1, 4: 2},
		},
		"errors and time-outs": {
			head + "3 errored, 4 timeout\nstatus codes: 0 2xx, 1 3xx, 0 4xx, 5 5xx\n",
			&statuses{0: 7, 3: 1, 5: 5},
		},
		"no report": {report: "could not connect"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseH2load(test.report)
			if (err != nil) != (test.want == nil) || err == nil && *got != *test.want {
				t.Errorf("%v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// A process that works has used CPU time and memory.
func TestUsage(t *testing.T) {
	t.Parallel()
	const script = "while :; do :; done"
	b := &bench{dir: t.TempDir()}
	p, err := b.start(t.Context(), "shell", nil, func(context.Context) error { return nil }, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(0) })
	testenv.Wait(t, time.Minute, func() error {
		used, err := p.cpu()
		if err == nil && used == 0 {
			err = errors.New("no CPU time")
		}
		return err
	})
	if mb, err := p.residentMB(); mb <= 0 || err != nil {
		t.Errorf("%v MB, %v", mb, err)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	got := busy(cpu.TimesStat{
		User: 1, Nice: 0.2, System: 0.3, Idle: 99, Iowait: 99, Irq: 0.04, Softirq: 0.05, Steal: 0.06,
		Guest: 0.7, GuestNice: 0.8,
	})
	testenv.Within(t, "what was stolen is not this machine's", got, 1.59-1e-9, 1.59+1e-9)
}

func TestSentSince(t *testing.T) {
	t.Parallel()
	first, err := parseCalls(map[string]string{"cmdstat_info": "calls=1,usec=9", "cmdstat_incrby": "calls=10,usec=9"})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		after map[string]string
		want  int64
	}{
		"plain commands": {
			map[string]string{
				"cmdstat_incrby": "calls=15,usec=1", "cmdstat_expire": "calls=5,usec=1", "cmdstat_info": "calls=2,usec=1",
			}, 10,
		},
		"scripts, and what they call": {
			map[string]string{
				"cmdstat_incrby": "calls=10,usec=1", "cmdstat_evalsha": "calls=6,usec=1", "cmdstat_eval": "calls=1,usec=1",
				"cmdstat_get": "calls=7,usec=1",
			}, 7,
		},
		"upkeep of idle connections": {
			map[string]string{"cmdstat_incrby": "calls=10,usec=1", "cmdstat_ping": "calls=7,usec=1"}, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			second, err := parseCalls(test.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := second.sentSince(first); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
	if _, err := parseCalls(map[string]string{"cmdstat_get": "calls=x,usec=1"}); err == nil {
		t.Error("no error for a number that is not one")
	}
}
