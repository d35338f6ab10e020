package wasmhost

import (
	"sync"
	"time"
)

// An eventQueue holds the events that wait for the worker's event loop. Its size has no
// bound: who posts never waits for who runs.
type eventQueue struct {
	mu     sync.Mutex
	events []func()
	signal chan struct{} // has room for one: something is there
}

func (q *eventQueue) put(f func()) {
	q.mu.Lock()
	q.events = append(q.events, f)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *eventQueue) take() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) == 0 {
		return nil
	}
	f := q.events[0]
	q.events = q.events[1:]
	return f
}

// Post has f run on the worker's goroutine, by Drain or Pump. It may be called
// from any.
func (h *Host) Post(f func()) { h.events.put(f) }

// Drain runs the events that wait, and those they cause, and waits for none.
func (h *Host) Drain() {
	for f := h.events.take(); f != nil; f = h.events.take() {
		f()
	}
}

// Pump runs events as they come until the condition holds, and reports whether it
// does. It gives up when the time is over, or the guest has failed.
func (h *Host) Pump(limit time.Duration, condition func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !condition() && h.failure == nil {
		if f := h.events.take(); f != nil {
			f()
			continue
		}
		select {
		case <-h.events.signal:
		case <-timer.C:
			return false
		}
	}
	return h.failure == nil
}
