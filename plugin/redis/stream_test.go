package redis

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Attempts to connect are as far apart as the breaker's probes, even when the
// breaker stays closed.
func TestReopenWithBackoff(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1 << 30
	r := newRig(t, options)
	attempt := func() bool { // connects, in vain
		streams := r.streams
		r.request("a").flush()
		if r.streams == streams {
			return false
		}
		r.closeStream()
		return true
	}
	base := options.Breaker.MinOpenMicros
	for i := range 12 {
		if !attempt() {
			t.Fatalf("no attempt %d", i)
		}
		failed := r.now
		for !attempt() {
			if r.now += 1 * ms; r.now > failed+20_000*ms {
				t.Fatal("it never tries again")
			}
		}
		pause := r.now - failed
		r.now = failed + pause
		low, high := base*4/5, base*5/4+1*ms
		low, high = max(low, options.Breaker.MinOpenMicros), min(high, options.Breaker.MaxOpenMicros+1*ms)
		if pause < low || pause > high {
			t.Errorf("pause %d is %d us, want %d to %d", i, pause, low, high)
		}
		// The attempt that ended the loop has failed, too, and doubled the pause.
		base = min(base*2, options.Breaker.MaxOpenMicros)
		r.now = r.conn.link.stream.reopenMicros
		base = min(base*2, options.Breaker.MaxOpenMicros)
	}
	r.request("b").flush()
	r.allow(1)
	r.closeStream()
	if w := r.request("c").flush(); w.refused != NoCause {
		t.Errorf("a stream that worked was lost, and the next request is refused: %v", w.refused)
	}
	r.closeStream()
	if pause := r.conn.link.stream.reopenMicros - r.now; pause > options.Breaker.MinOpenMicros*5/4 {
		t.Errorf("after a stream that worked, the first pause is %d us", pause)
	}
}

// A stream that nothing needs rests, however young streams have to be: a rotation is no use of it.
func TestRotatingStreamRests(t *testing.T) {
	t.Parallel()
	for _, maxAge := range []int64{1_000 * ms, 50_000 * ms} {
		options := testOptions()
		options.MaxAgeMicros = maxAge
		r := newRig(t, options)
		r.request("a").flush()
		r.allow(1)
		for end := r.now + restMicros; r.now < end; {
			r.pass(500 * ms)
			r.conn.Tick(r.now) // which something else needs
			for len(r.besideCommands) > 0 {
				r.answerBeside("+OK\r\n")
			}
		}
		r.pass(100 * ms)
		r.wantStreams("after a minute", false, false)
		testenv.Same(t, "the next tick", r.conn.NextTickMicros(r.now), 0)
	}
	options := testOptions()
	options.MaxAgeMicros = 1_000 * ms
	r := newRig(t, options)
	r.request("a").flush()
	r.allow(1)
	r.pass(restMicros)
	r.wantStreams("with no tick before", false, false)
}
