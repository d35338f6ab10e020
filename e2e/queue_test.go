package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// queueInterval is the time between two departures of the queue: so long that a test on a busy
// machine has sent all its requests before the first that waits departs.
const queueInterval = time.Second

// enqueue sends requests named "0" to "n-1", each once the one before it is in
// the queue, and returns channels of their answers. The contexts cancel them.
func enqueue(t *testing.T, s *setting, contexts []context.Context) (answers []chan error) {
	t.Helper()
	level := s.snapshot(t)
	for i, each := range contexts {
		answer := make(chan error, 1)
		answers = append(answers, answer)
		go func() {
			r, err := send(each, shared, fmt.Sprintf("%s/?%d", s.URL, i), "x-user: u")
			if err == nil && r.status != http.StatusOK {
				err = fmt.Errorf("status %d", r.status)
			}
			answer <- err
		}()
		testenv.Wait(t, patience, func() error {
			now := s.snapshot(t)
			if now == level {
				return fmt.Errorf("request %d is not in the queue", i)
			}
			level = now
			return nil
		})
	}
	return answers
}

// burstWaits: what is over a burst leaves in order, each no earlier than its turn, over Redis; and what
// would wait too long is told when to come again.
var burstWaits = plain{
	name: "a burst waits",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
		{"algorithm": "gcra", "overflow": "queue", "limit": 1, "window": "1s", "burst": 2, "max_wait": "3s"}]}]}`,
	play: func(t *testing.T, s *setting) {
		begin := time.Now().Add(-queueInterval) // the first two leave at once
		answers := enqueue(t, s, []context.Context{ctx, ctx, ctx, ctx, ctx})
		r := get(t, s.URL+"/?9", "x-user: u")
		testenv.Same(t, "the sixth: status", r.status, http.StatusTooManyRequests)
		testenv.Same(t, "the sixth: remaining", r.header.Get("x-ratelimit-remaining"), "0")
		testenv.Same(t, "the sixth: retry-after", r.header.Get("retry-after"), "1")
		for i, answer := range answers {
			err := <-answer
			if after, due := time.Since(begin), time.Duration(i)*queueInterval; err != nil || after < due {
				t.Errorf("request %d: %v after %v, its turn was at %v", i, err, after, due)
			}
		}
		var got []string
		for _, r := range s.upstream.Requests() {
			got = append(got, r.URL.RawQuery)
		}
		slices.Sort(got[:min(2, len(got))]) // two workers may let the first two go in any order
		testenv.SameList(t, "the upstream got", got, []string{"0", "1", "2", "3", "4"})
	},
}
