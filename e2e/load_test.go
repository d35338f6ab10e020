package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// load is clients that send requests one after the other until stopped.
type load struct {
	t       testing.TB
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu      sync.Mutex
	answers tally
	errors  []error
	worst   time.Duration
}

// pace is each client's pause between requests: load enough to meet every
// moment of a fault, and little enough for two cores that others use too.
const pace = 4 * time.Millisecond

// startLoad begins with a number of clients that request one URL.
func startLoad(t testing.TB, clients int, url string, headers ...string) *load {
	t.Helper()
	return startVarying(t, clients, func(int, reply) string { return url }, headers...)
}

// startVarying begins with clients whose next URL depends on their number and the
// last answer they had.
func startVarying(t testing.TB, clients int, next func(client int, last reply) string, headers ...string) *load {
	t.Helper()
	running, cancel := context.WithCancel(context.Background())
	l := &load{t: t, cancel: cancel, answers: tally{}}
	t.Cleanup(func() {
		cancel()
		l.clients.Wait()
	})
	for i := range clients {
		l.clients.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for last := (reply{}); running.Err() == nil; <-tick.C {
				url, begin, err := next(i, last), time.Now(), error(nil)
				last, err = send(context.Background(), client, url, headers...)
				l.mu.Lock()
				l.worst = max(l.worst, time.Since(begin))
				if err != nil {
					l.errors = append(l.errors, err)
				} else {
					l.answers[last.status]++
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// await returns when a number of further requests have got one of the statuses.
func (l *load) await(n int, statuses ...int) {
	l.t.Helper()
	first := l.count(statuses...)
	testenv.Wait(l.t, 3*patience, func() error {
		return atLeast(l.count(statuses...)-first, n, fmt.Sprintf("more of status %v (%v)", statuses, l))
	})
}

// count is the number of answers with one of the statuses, or with any if none is named.
func (l *load) count(statuses ...int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for status, count := range l.answers {
		if len(statuses) == 0 || slices.Contains(statuses, status) {
			n += count
		}
	}
	return n
}

func (l *load) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.errors[:min(len(l.errors), 1)]
	return fmt.Sprintf("%v; %d without an answer %v; worst latency %v", l.answers, len(l.errors), first, l.worst)
}

// stop ends the clients, each after its request, and fails the test if a
// request has had no answer.
func (l *load) stop() tally {
	l.t.Helper()
	l.cancel()
	l.clients.Wait()
	if len(l.errors) > 0 {
		l.t.Errorf("requests were lost: %v", l)
	}
	return l.answers
}
