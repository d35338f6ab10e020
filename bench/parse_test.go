package main

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
)

func TestParseH2load(t *testing.T) {
	t.Parallel()
	const head = "finished in 2.00s, 10 req/s, 5MB/s\nrequests: 3 total, 3 started, 3 done, 1 succeeded, 2 failed, "
	tests := map[string]struct {
		report string
		want   map[int]int64 // nil: an error
	}{
		"answers": {
			head + "0 errored, 0 timeout\nstatus codes: 1 2xx, 0 3xx, 2 4xx, 0 5xx\n",
			map[int]int64{200: 1, 300: 0, 400: 2, 500: 0, 0: 0},
		},
		"errors and time-outs": {
			head + "3 errored, 4 timeout\nstatus codes: 0 2xx, 1 3xx, 0 4xx, 5 5xx\n",
			map[int]int64{200: 0, 300: 1, 400: 0, 500: 5, 0: 7},
		},
		"no report": {report: "could not connect"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := parseH2load(test.report)
			if (err != nil) != (test.want == nil) {
				t.Fatalf("error %v", err)
			}
			if err == nil && !maps.Equal(o.statuses, test.want) {
				t.Errorf("statuses %v, want %v", o.statuses, test.want)
			}
		})
	}
}

// A process that works has used CPU time and memory.
func TestUsage(t *testing.T) {
	t.Parallel()
	const script = "while :; do :; done"
	p, err := unwatched.startProcess(t.TempDir(), "shell", nil, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	worked := func(context.Context) error {
		used, err := p.cpu()
		if err == nil && used == 0 {
			err = errors.New("no CPU time")
		}
		return err
	}
	if err := p.await(t.Context(), worked); err != nil {
		t.Error(err)
	}
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
	if got.Round(time.Microsecond) != 1590*time.Millisecond {
		t.Errorf("got %v, want 1.59s: what was stolen is not this machine's", got)
	}
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
