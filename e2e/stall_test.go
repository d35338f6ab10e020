package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/worstcase"
)

// TestNoRequestStallsAWorker sends the worst requests one after the other, and compares how long
// the worker computes for them with one of the same size that no rule looks at. The bound is a
// multiple of that one's time, since a machine that others use computes everything for longer.
func TestNoRequestStallsAWorker(t *testing.T) {
	const most = 4 // of 0.8 ms, with 16 rules
	cases := worstcase.Cases
	beside := map[string]string{}
	for _, c := range cases {
		beside[c.Name] = c.Config()
	}
	byDefault := func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/max_request_headers_kb", 60) }
	e := start(t, cases[0].Config(), envoytest.Options{
		Redis: []string{}, Beside: beside, Workers: 1, Quiet: true, Edit: byDefault,
	})
	unread := cases[slices.IndexFunc(cases, func(c worstcase.Case) bool { return c.Name == worstcase.Unread })]
	plain := &yardstick{e: e, url: e.Beside[unread.Name], headers: unread.Headers}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { plain.compare(t, e.Beside[c.Name], c.Headers, most) })
	}
}

// yardstick is a plain request, in whose time others are measured: a busy machine computes all of
// them for longer.
type yardstick struct {
	e       *setting
	url     string
	headers [][2]string
	took    time.Duration // 0: not measured yet
}

// compare expects that a request takes so many times the plain one's time more, at most.
func (y *yardstick) compare(t *testing.T, url string, headers [][2]string, most time.Duration) {
	t.Helper()
	if y.took == 0 {
		y.took = least(t, y.e, y.url, y.headers)
	}
	took := least(t, y.e, url, headers)
	if took-y.took > most*y.took { // The machine may have become slower meanwhile.
		y.took = least(t, y.e, y.url, y.headers)
		took = min(took, least(t, y.e, url, headers))
	}
	t.Logf("takes %v longer than the %v of a plain request", took-y.took, y.took)
	if took-y.took > most*y.took {
		t.Errorf("takes %v longer than a plain request, want at most %v", took-y.took, most*y.took)
	}
}

// least is the least time that Envoy's one worker computes for a request, of several rounds. A busy
// machine makes requests wait, which does not count.
func least(t *testing.T, e *setting, url string, headers [][2]string) time.Duration {
	t.Helper()
	const rounds, requests = 6, 10
	client := newClient()
	defer client.CloseIdleConnections()
	var list []string
	for _, h := range headers {
		if name := strings.Replace(h[0], ":authority", "host", 1); name != ":scheme" {
			list = append(list, name+": "+h[1])
		}
	}
	least := time.Hour
	for range rounds {
		began := idle(t, e)
		for range requests {
			r, err := send(ctx, client, url, list...)
			testenv.OK(t, err)
			testenv.Same(t, url+": status", r.status, http.StatusOK)
		}
		least = min(least, (idle(t, e)-began)/requests)
	}
	return least
}

// idle returns how long Envoy's workers have computed, once they have nothing to do, by
// https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat. It can tell what one
// request costs on a machine that others use.
func idle(t *testing.T, e *setting) (computed time.Duration) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		before := computed
		computed = 0
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", e.PID()))
		testenv.OK(t, err)
		for _, thread := range threads {
			if name, err := os.ReadFile(thread + "/comm"); err != nil || !strings.HasPrefix(string(name), "wrk:") {
				continue // another thread, or one that has ended
			}
			var ran time.Duration
			_, err := fmt.Sscan(string(testenv.Read(t, thread+"/schedstat")), &ran)
			testenv.OK(t, err)
			computed += ran
		}
		if computed == 0 {
			t.Fatal("Envoy has no workers")
		}
		if computed != before {
			return errors.New("the workers are at work")
		}
		return nil
	})
	return computed
}
