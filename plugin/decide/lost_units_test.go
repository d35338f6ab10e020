package decide

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// mesh is some workers with real connections to one Redis of twins, on one clock.
type mesh struct {
	t        *testing.T
	rules    *rule.Set
	server   *twinredis.Server
	now      Time
	workers  []*meshWorker
	admitted int
	calls    int // of scripts
}

// meshWorker is one worker. It is its Envoy and its connection's Host, and counts nothing.
type meshWorker struct {
	*mesh
	worker  *Worker
	away    bool
	open    bool
	replies []byte
}

func (*meshWorker) Say(uint32, string)               {}
func (*meshWorker) Resume(uint32)                    {}
func (*meshWorker) Answer(uint32, *answer.Rejection) {}
func (*meshWorker) Report(uint32, *answer.Report)    {}
func (*meshWorker) TickWithin(int64, int64)          {}
func (*meshWorker) SetHeaders(uint32, [][2]string)   {}

func (*meshWorker) Request(uint32) rule.Request { return headers{} }

func (*meshWorker) Count(metric.Event, int64)         {}
func (*meshWorker) RequestFailed(redis.Cause)         {}
func (*meshWorker) RoundTrip(int64)                   {}
func (*meshWorker) BreakerChanged(redis.BreakerState) {}
func (*meshWorker) OverrideIgnored([]byte)            {}
func (*meshWorker) Concluded(*Question, Verdict)      {}
func (*meshWorker) SwapStreams()                      {}
func (*meshWorker) CloseStatus() uint32               { return 0 }
func (*meshWorker) Warn(string)                       {}
func (*meshWorker) Info(string)                       {}
func (*meshWorker) Tried(bool, string)                {}
func (*meshWorker) Turn(int64) bool                   { return false }
func (*meshWorker) Examined(redis.ServerStats, int64) {}
func (w *meshWorker) CloseStream()                    { w.open, w.replies = false, nil }

func (w *meshWorker) OpenStream() error {
	if w.away {
		return fmt.Errorf("away")
	}
	w.open = true
	return nil
}

func (w *meshWorker) Send(commands []byte) error {
	w.replies = w.server.Receive(w.replies, commands, w.now.UnixMicros)
	return nil
}

func newMesh(t *testing.T, workers int, text string) *mesh {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rule.Compile(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &mesh{t: t, rules: rules, server: twinredis.New(rules), now: Time{SteadyMicros: 1e9, UnixMicros: 1_790_000_000e6}}
	m.server.Ran = func(*twinredis.Call) { m.calls++ }
	for i := range workers {
		w := &meshWorker{mesh: m}
		w.worker = NewWorker(cfg, rules, nil, w, w, rand.NewPCG(uint64(i), 1))
		w.worker.Connect(w, redis.Options{
			KeyPrefix: "rl", TimeoutMicros: cfg.Redis.TimeoutMicros, MaxPending: cfg.Failure.MaxPending,
			Breaker: cfg.Failure.Breaker, Seed: uint64(i) + 1,
		})
		m.workers = append(m.workers, w)
	}
	return m
}

// request is one request. Redis' replies come at once.
func (w *meshWorker) request() (admitted bool) {
	var matcher rule.Matcher
	applied, _ := w.rules.Apply(headers{}, &matcher)
	q := w.worker.Question(0)
	q.Keep(applied)
	w.worker.Arrive(q, w.now)
	w.hear()
	if admitted = q.State() == Passed; admitted {
		w.admitted++
	}
	w.worker.Ends(q, nil, w.now)
	w.hear()
	return admitted
}

// hear brings the worker what Redis has answered.
func (w *meshWorker) hear() {
	for len(w.replies) > 0 {
		replies := w.replies
		w.replies = nil
		w.worker.Received(replies, w.now)
	}
}

// kill ends all connections, between requests.
func (m *mesh) kill() {
	for _, w := range m.workers {
		if w.open {
			w.CloseStream()
			w.worker.Closed(m.now)
		}
	}
}

// pass lets time pass, with the ticks that the workers ask for.
func (m *mesh) pass(micros int64) {
	for end := m.now.SteadyMicros + micros; m.now.SteadyMicros < end; {
		step := end - m.now.SteadyMicros
		for _, w := range m.workers {
			if next := w.worker.NextMicros(m.now.SteadyMicros); next > 0 {
				step = min(step, max(next, 4000))
			}
		}
		m.now.SteadyMicros += step
		m.now.UnixMicros += step
		for _, w := range m.workers {
			w.worker.Tick(m.now)
			w.hear()
		}
	}
}

// exhaust sends requests to all workers in turn until none has admitted any for a while.
func (m *mesh) exhaust() {
	for idle := 0; idle < 2000; {
		if m.workers[idle%len(m.workers)].request() {
			idle = 0
		}
		idle++
		m.pass(1000)
	}
}

// TestUnitsSurviveKilledConnections: units of leases are given back though their connection
// was killed meanwhile, by its ttl or when the next one is open.
func TestUnitsSurviveKilledConnections(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		algorithm string // "": a fixed window
		limit     int
		lease     string
		awayFor   int64 // after each kill
		wantAtEnd int
	}{
		{name: "units", limit: 1000, lease: `{"units": 100, "ttl": "200ms"}`, wantAtEnd: 990},
		{name: "units of a long life", limit: 1000, lease: `{"units": 100, "ttl": "5s"}`, wantAtEnd: 990},
		{
			name: "units, and Redis away for longer than they live", limit: 1000, lease: `{"units": 100, "ttl": "200ms"}`,
			awayFor: 1e6, wantAtEnd: 990,
		},
		{name: "automatic", limit: 3000, lease: `{"ttl": "200ms"}`, wantAtEnd: 2970},
		{
			name: "units of a bucket", algorithm: `"gcra"`, limit: 1000, lease: `{"units": 100, "ttl": "200ms"}`,
			wantAtEnd: 990,
		},
		{
			name: "units of a bucket, away", algorithm: `"token_bucket"`, limit: 1000, lease: `{"units": 100, "ttl": "200ms"}`,
			awayFor: 1e6, wantAtEnd: 990,
		},
		{
			name: "automatic, of a bucket", algorithm: `"gcra"`, limit: 3000, lease: `{"ttl": "200ms"}`,
			wantAtEnd: 2970,
		},
		{
			name: "automatic, of a bucket, away", algorithm: `"leaky_bucket"`, limit: 3000, lease: `{"ttl": "200ms"}`,
			awayFor: 1e6, wantAtEnd: 2970,
		},
		{name: "automatic, away", limit: 3000, lease: `{"ttl": "200ms"}`, awayFor: 1e6, wantAtEnd: 2970},
	} {
		for _, workers := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d workers", tc.name, workers), func(t *testing.T) {
				t.Parallel()
				m := newMesh(t, workers, fmt.Sprintf(`{"redis": {"cluster": "redis"}, "failure": {"mode": "deny"},
					"rules": [{"name": "r", "limits": [
					{"algorithm": %s, "limit": %d, "window": "1d", "lease": %s}]}]}`,
					cmp.Or(tc.algorithm, `"fixed_window", "anchor": "first_request"`), tc.limit, tc.lease))
				for i := range 6 * tc.limit / 8 {
					m.workers[i%workers].request()
					m.pass(500)
					if i%(tc.limit/8) == tc.limit/8-1 {
						m.killFor(tc.awayFor)
					}
				}
				m.exhaust()
				if m.admitted < tc.wantAtEnd || m.admitted > tc.limit {
					t.Errorf("%d of %d were admitted, want at least %d; %d calls", m.admitted, tc.limit, tc.wantAtEnd, m.calls)
				}
			})
		}
	}
}

// killFor kills all connections, and lets none be opened for a time.
func (m *mesh) killFor(micros int64) {
	for _, w := range m.workers {
		w.away = micros > 0
	}
	m.kill()
	m.pass(micros)
	for _, w := range m.workers {
		w.away = false
	}
}

// TestBucketsForgetUnitsThatComeBack: a bucket of seconds does not drain below what was lent. Once
// the units of a killed connection are given back, its burst is there again, but for the hundred
// units of that batch that were spent: they count as lent until the next batch.
func TestBucketsForgetUnitsThatComeBack(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 1, `{"redis": {"cluster": "redis"}, "failure": {"mode": "deny"}, "rules": [{"name": "r", "limits": [
		{"algorithm": "gcra", "limit": 2000, "window": "1s", "burst": 4000, "lease": {"units": 1000, "ttl": "1s"}}]}]}`)
	for range 600 {
		m.workers[0].request()
	}
	m.killFor(1)
	m.workers[0].request()
	m.pass(400e3)
	m.admitted = 0
	for range 6000 {
		m.workers[0].request()
	}
	testenv.Within(t, "admitted at one instant", m.admitted, 3890, 4000)
}

// TestUnitsAreNoCreditForLostData: units that come back to a Redis that has lost its data
// leave it empty. The limit begins anew, and no unit is more than that.
func TestUnitsAreNoCreditForLostData(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{
		`"fixed_window"`, `"fixed_window", "anchor": "first_request"`, `"gcra"`, `"token_bucket"`,
	} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, 1, fmt.Sprintf(`{"redis": {"cluster": "redis"}, "failure": {"mode": "deny"},
				"rules": [{"name": "r", "limits": [
				{"algorithm": %s, "limit": 1000, "window": "1d", "lease": {"units": 100, "ttl": "200ms"}}]}]}`, algorithm))
			for range 150 {
				m.workers[0].request()
			}
			m.server.Restart()
			m.killFor(1e6)
			m.admitted = 0
			m.exhaust()
			if m.admitted < 990 || m.admitted > 1000 {
				t.Errorf("%d were admitted of a limit of 1000 that began anew", m.admitted)
			}
		})
	}
}
