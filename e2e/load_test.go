package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// load is clients that send requests one after the other until stopped.
type load struct {
	t       testing.TB
	cancel  context.CancelFunc
	clients sync.WaitGroup
	ended   sync.Once

	mu      sync.Mutex
	answers tally
	errors  []error
	worst   time.Duration
	changed chan struct{} // closed and replaced with each answer
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
	l := &load{t: t, cancel: cancel, answers: tally{}, changed: make(chan struct{})}
	t.Cleanup(func() { l.stop() })
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
				close(l.changed)
				l.changed = make(chan struct{})
				l.mu.Unlock()
			}
		})
	}
	return l
}

// await returns when a number of further requests have got one of the statuses.
func (l *load) await(n int, statuses ...int) {
	l.t.Helper()
	count := func() (n int, changed <-chan struct{}) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, status := range statuses {
			n += l.answers[status]
		}
		return n, l.changed
	}
	deadline := time.After(3 * patience)
	for first, _ := count(); ; {
		now, changed := count()
		if now-first >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			l.t.Fatalf("%d more of status %v have come, want %d: %v", now-first, statuses, n, l)
		}
	}
}

// total is the number of answers.
func (l *load) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, count := range l.answers {
		n += count
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
	l.ended.Do(func() {
		l.cancel()
		l.clients.Wait()
		if len(l.errors) > 0 {
			l.t.Errorf("requests were lost: %v", l)
		}
	})
	return l.answers
}
