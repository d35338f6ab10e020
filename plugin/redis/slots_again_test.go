package redis

import (
	"testing"

	"github.com/sluiceproxy/sluice/plugin/metric"
)

// TestLostReleaseMayHaveBeenMade: what is given back twice, as the first reply was lost,
// counts as none that had ended.
func TestLostReleaseMayHaveBeenMade(t *testing.T) {
	t.Parallel()
	for name, giveBack := range map[string]func(r *rig){
		"release": func(r *rig) { r.release(7) },
		"refund":  func(r *rig) { r.conn.Refund(r.held(7), r.now) },
	} {
		r := newSlotRig(t)
		r.request("r|b").flush()
		r.answer(slotsAllowed)
		giveBack(r)
		r.closeStream()
		r.conn.Tick(r.now)
		r.prove()
		r.wantCommands("RELEASE 1 rl:{r|a}:concurrency 7 2")
		r.answer(":1\r\n")
		if gone := r.counted[metric.SlotsExpired]; gone != 0 {
			t.Errorf("%s: %d slots had ended", name, gone)
		}
	}
}

// TestRenewalBehindRelease: a renewal that has to be sent again does not bring slots
// back that were given back meanwhile.
func TestRenewalBehindRelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		giveBack func(r *rig)
		want     []string
	}{
		{"none", func(*rig) {}, []string{"RENEW 1 rl:{r|a}:concurrency 30000000 3 1 7 2"}},
		{"one", func(r *rig) { r.release(7) }, []string{"RENEW 1 rl:{r|a}:concurrency 30000000 3 1"}},
		{"by a refund", func(r *rig) {
			r.conn.Refund(r.held(7), r.now)
		}, []string{"RENEW 1 rl:{r|a}:concurrency 30000000 3 1"}},
		{"all", func(r *rig) {
			r.release(7)
			r.conn.Release(r.script, []byte("r|a"), Slots{3, 1}, r.now)
		}, nil},
		{"of another identity", func(r *rig) {
			r.conn.Release(r.script, []byte("r|b"), Slots{7, 2}, r.now)
		}, []string{"RENEW 1 rl:{r|a}:concurrency 30000000 3 1 7 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newSlotRig(t)
			r.request("r|b").flush()
			r.answer(slotsAllowed)
			for range 2 { // the second time by hash
				r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}, {7, 2}}, r.now)
				r.conn.Flush(r.now)
				if r.script.known[renewForm] == 0 {
					r.answer(":0\r\n")
				}
			}
			c.giveBack(r)
			r.conn.Tick(r.now)
			given := len(r.commands) - 1
			r.answer("-NOSCRIPT No matching script.\r\n")
			r.commands = r.commands[given:]
			r.wantCommands(c.want...)
		})
	}
}
