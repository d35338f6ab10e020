//go:build soak

package e2e

import (
	"cmp"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// soakTime is how long TestSoak goes on: the environment variable SOAK, such as
// "30m", or 10 minutes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "10m"))
	testenv.OK(t, err)
	return d
}

// soakGrowthKB is how much more memory Envoy may hold at the end than after the
// first rounds, in which its heap finds its size.
const soakGrowthKB = 8_000

// TestSoak has one Envoy go through all kinds of faults, in random order, again
// and again, with a reload in each round: nothing crashes, no request is stuck or
// lost, each is counted once, and memory stays flat.
func TestSoak(t *testing.T) {
	server := redistest.Start(t)
	w := newWire(t, server.Addr, nil)
	o := launchOutage(t, outageTimeout, envoytest.Options{Redis: []string{w.addr}, Quiet: true})
	o.client = server.Client()
	o.await(50)
	o.expectDecided()
	on := func(f fault) func() {
		return func() {
			w.set(f)
			o.await(100)
			w.set(pass)
			w.cut()
		}
	}
	do := func(args ...any) func() {
		return func() {
			if err := o.client.Do(ctx, args...).Err(); err != nil {
				t.Error(err)
			}
			o.await(100)
		}
	}
	faults := []func(){
		func() { server.Kill(); o.await(100); server.Restart() },
		func() { server.Signal(syscall.SIGSTOP); o.await(100); server.Signal(syscall.SIGCONT) },
		do("SCRIPT", "FLUSH"),
		do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
		on(func(io.Writer, []byte) error { return nil }),
		on(func(io.Writer, []byte) error { return errCut }),
		on(func(to io.Writer, piece []byte) error { return pass(to, piece[len(piece)/2:]) }),
		on(func(to io.Writer, piece []byte) error {
			time.Sleep(rand.N(2 * outageTimeout)) // an unsteady network
			return pass(to, piece)
		}),
		func() { w.cut(); o.await(300) },
	}
	const warmUp = 12 // rounds
	began, initial, settled := time.Now(), o.ResidentKB(), 0
	round := 0
	for lasts := soakTime(t); round <= warmUp || time.Since(began) < lasts; round++ {
		for _, i := range rand.Perm(len(faults)) {
			faults[i]()
			o.expectDecided()
		}
		o.reload()
		o.await(50)
		if round+1 == warmUp {
			settled = o.ResidentKB()
		}
	}
	final := o.ResidentKB()
	t.Logf("%d rounds of %d faults and a reload in %v: Envoy holds %d KB at the start, %d KB after %d rounds, %d KB at "+
		"the end",
		round, len(faults), time.Since(began).Round(time.Second), initial, settled, warmUp, final)
	if grown := final - settled; grown > soakGrowthKB {
		t.Errorf("Envoy holds %d KB more than after the first rounds, want %d at most", grown, soakGrowthKB)
	}
	o.finish()
}
