package observe

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// held is how many streams are in flight: more than SluiceSlotsExpire takes for usual.
const held = 12

// slow answers streams when they are released.
func (s *scene) slow(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/streams" {
		select {
		case <-s.released:
		case <-r.Context().Done():
		case <-time.After(limit):
		}
	}
	fmt.Fprintln(w, "ok")
}

// slots holds streams, loses in Redis what it knows of them, and lets them end.
func (s *scene) slots(t *testing.T) {
	client := s.redis.Client()
	var streams sync.WaitGroup
	for range held {
		streams.Go(func() { s.client.get(s.URL+"/streams", "x-user", "ann") })
	}
	s.until(t, fmt.Sprintf(`sum(sluice_in_flight_requests{rule="streams"}) == %d`, held))
	calm()
	if n, err := client.Del(t.Context(), "rl:{streams|ann}:concurrency").Result(); n != 1 || err != nil {
		t.Errorf("%d keys of slots, want 1 (%v)", n, err)
	}
	close(s.released)
	streams.Wait()
	s.until(t, fmt.Sprintf("sluice_slots_expired_total >= %d", held))
}
