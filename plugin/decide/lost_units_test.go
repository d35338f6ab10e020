package decide

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// mesh is some workers of one Redis, which answers at once.
type mesh struct {
	workers  []*world
	admitted int
}

func newMesh(t *testing.T, workers int, text string) *mesh {
	t.Helper()
	m := &mesh{}
	for i := range workers {
		w := newWorld(t, uint64(i)+1, text)
		w.server = append(m.workers, w)[0].server
		m.workers = append(m.workers, w)
	}
	return m
}

// request is one request to a worker.
func (m *mesh) request(w *world) (admitted bool) {
	q := w.answered()
	if admitted = q.State() == Passed; admitted {
		m.admitted++
	}
	w.endStream(q)
	w.answer()
	return admitted
}

// pass lets time pass, with the ticks that the workers ask for.
func (m *mesh) pass(micros int64) { m.workers[0].ticks(micros, m.workers[1:]...) }

// exhaust sends requests to all workers in turn until none has admitted any for a while.
func (m *mesh) exhaust() {
	for idle := 0; idle < 2000; {
		if m.request(m.workers[idle%len(m.workers)]) {
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
					m.request(m.workers[i%workers])
					m.pass(500)
					if i%(tc.limit/8) == tc.limit/8-1 {
						m.killFor(tc.awayFor)
					}
				}
				m.exhaust()
				if m.admitted < tc.wantAtEnd || m.admitted > tc.limit {
					t.Errorf("%d of %d were admitted, want at least %d", m.admitted, tc.limit, tc.wantAtEnd)
				}
			})
		}
	}
}

// killFor kills all connections, and lets none be opened for a time.
func (m *mesh) killFor(micros int64) {
	for _, w := range m.workers {
		w.away = micros > 0
		w.lose()
	}
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
		m.request(m.workers[0])
	}
	m.killFor(1)
	m.request(m.workers[0])
	m.pass(400e3)
	m.admitted = 0
	for range 6000 {
		m.request(m.workers[0])
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
				m.request(m.workers[0])
			}
			m.workers[0].server.Restart()
			m.killFor(1e6)
			m.admitted = 0
			m.exhaust()
			if m.admitted < 990 || m.admitted > 1000 {
				t.Errorf("%d were admitted of a limit of 1000 that began anew", m.admitted)
			}
		})
	}
}
