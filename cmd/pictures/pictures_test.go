package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestPicturesAreUpToDate(t *testing.T) {
	t.Parallel()
	for path, draw := range pictures {
		got, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(testenv.Root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what is to be drawn now: run \"go run ./cmd/pictures\"", path)
		}
	}
}

func TestPicturesAreXML(t *testing.T) {
	t.Parallel()
	for path, draw := range pictures {
		picture, err := draw()
		if err != nil {
			t.Fatal(err)
		}
		testenv.WellFormed(t, path, picture)
	}
}

// docs/ai.md describes the recorded run.
func TestRecordedLedger(t *testing.T) {
	t.Parallel()
	l, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
}

// What the picture of the algorithms is to show.
func TestHistories(t *testing.T) {
	t.Parallel()
	most := []int{10, 8, limit, 6, 8, limit, 6}
	for i, l := range lanes() {
		h, err := replay(l.limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.outcomes) != len(arrivals()) {
			t.Errorf("%s: %d outcomes of %d requests", l.name, len(h.outcomes), len(arrivals()))
		}
		if h.most() != most[i] {
			t.Errorf("%s, %s: at most %d in a window, want %d", l.name, l.notes[0], h.most(), most[i])
		}
		times := h.departures()
		for j := 1; l.limit.Queue && j < len(times); j++ {
			if times[j]-times[j-1] < second {
				t.Errorf("the queue lets one leave %d us after another", times[j]-times[j-1])
			}
		}
		if last := times[len(times)-1]; last > span {
			t.Errorf("%s: the last leaves at %d us, beyond the picture", l.name, last)
		}
	}
}

// TestSchemes: what the picture of levels is to show. One limit leaves the tenants a part of it, a
// guarantee refuses them nothing, and a pool with one is used up.
func TestSchemes(t *testing.T) {
	t.Parallel()
	for _, s := range schemes {
		got, err := s.shared()
		if err != nil {
			t.Fatal(err)
		}
		alone := s.pool+s.others == ""
		testenv.Same(t, s.name+": that the tenants lose more than half", got.tenants < got.sent/2, alone)
		testenv.Same(t, s.name+": that the tenants lose nothing", got.tenants == got.sent, !alone)
		testenv.Same(t, s.name+": that the pool is used up", got.tenants+got.flooder > 480, true)
	}
}
