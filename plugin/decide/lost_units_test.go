package decide

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// mesh is some workers of one Redis, which answers at once.
type mesh []*world

func newMesh(t *testing.T, workers int, text string) (m mesh) {
	t.Helper()
	for i := range workers {
		m = append(m, newWorld(t, uint64(i)+1, text))
		m[i].server = m[0].server
	}
	return m
}

// send sends requests to the workers in turn, with a time between them, and returns how many were admitted.
func (m mesh) send(requests int, everyMicros int64) (admitted int) {
	for i := range requests {
		w := m[i%len(m)]
		q := w.answered()
		if q.State() == Passed {
			admitted++
		}
		w.endStream(q)
		w.answer()
		ticks(everyMicros, m...)
	}
	return admitted
}

// exhaust sends requests until none has been admitted for a while.
func (m mesh) exhaust() (admitted int) {
	for more := 1; more > 0; admitted += more {
		more = m.send(2000, 1000)
	}
	return admitted
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
				admitted := 0
				for range 6 {
					admitted += m.send(tc.limit/8, 500)
					m.killFor(tc.awayFor)
				}
				admitted += m.exhaust()
				testenv.Within(t, "admitted", admitted, tc.wantAtEnd, tc.limit)
			})
		}
	}
}

// killFor kills all connections, and lets none be opened for a time.
func (m mesh) killFor(micros int64) {
	for _, w := range m {
		w.away = micros > 0
		w.lose()
	}
	ticks(micros, m...)
	for _, w := range m {
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
	m.send(600, 0)
	m.killFor(1)
	m.send(1, 400e3)
	testenv.Within(t, "admitted at one instant", m.send(6000, 0), 3890, 4000)
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
			m.send(150, 0)
			m[0].server.Restart()
			m.killFor(1e6)
			testenv.Within(t, "admitted of a limit of 1000 that began anew", m.exhaust(), 990, 1000)
		})
	}
}
