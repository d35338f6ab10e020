package redis

import (
	"testing"
)

// One of several servers behind redis_proxy is a replica: the connection, with what
// is in flight to the others, is replaced once a second and no more.
func TestOneServerIsReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	lost := 0
	for range 1000 {
		w := r.request("replica", "primary").flush()
		if r.conn.link.stream.unproven {
			r.prove()
		}
		r.answer("-READONLY You can't write against a read only replica.\r\n")
		if r.open {
			r.allow(1)
		}
		if w.checks[1].at == 0 {
			lost++
		}
		r.now += 10 * ms
	}
	if lost > 10 {
		t.Errorf("%d of 1000 checks of the other server were lost in 10 s", lost)
	}
	r.wantState(Closed)
}

// Where probes succeed and requests do not, the breaker slows down all the same.
func TestFlapping(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	began, cycles := r.now, 0
	for r.now < began+60_000*ms {
		r.trip(5)
		r.passPause()
		r.answer("+OK\r\n")
		r.wantState(Closed)
		cycles++
	}
	if cycles > 15 {
		t.Errorf("opened %d times in a minute", cycles)
	}
}
