package observe

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// hammer is a user whose name must not get into the log.
const hammer = "hammer-of-the-gods"

// forgotten lets Redis lose the slots of what is in flight, again and again.
func (s *scene) forgotten(t *testing.T, client *redis.Client) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		for ctx.Err() == nil {
			s.client.atOnce(15, s.URL+"/chat")
		}
	})
	group.Go(func() {
		for ctx.Err() == nil {
			if err := client.Del(t.Context(), "rl:{chat|}:concurrency").Err(); err != nil {
				t.Error(err)
			}
			time.Sleep(chatTime / 10) // a renewal may bring them back
		}
	})
	s.until(t, `sluice_slots_expired_total > 10`)
}

// until waits for an expression to have a value.
func (s *scene) until(t *testing.T, expr string) {
	t.Helper()
	testenv.Wait(t, promtest.Limit, func() error {
		found, err := s.prometheus.Query(expr)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s: no value", expr)
		}
		return err
	})
}

// sums compares what all clients saw, whatever the faults, with what was counted.
func (s *scene) sums(t *testing.T) {
	answers := s.client.answers
	t.Logf("answers: %v", answers)
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		if answers[status] == 0 {
			t.Errorf("no client saw %d", status)
		}
	}
	const left = 1 // the request that left the queue had been admitted
	s.await(
		t,
		fmt.Sprintf("%d\n%d\n%d\n0\n", answers[http.StatusTooManyRequests], answers[http.StatusServiceUnavailable],
			answers[http.StatusOK]+left),
		`sum(sluice_requests_total{outcome=~"limited|local_limited|blocked"})`,
		`sum(sluice_requests_total{outcome="failed_deny"})`,
		`sum(sluice_requests_total{outcome!~"limited|local_limited|blocked|failed_deny"})`,
		`sum(sluice_redis_in_flight_requests)`,
	)
	outcomes := []string{
		"allowed", "blocked", "exempt", "failed_allow", "failed_deny", "limited", "local_allowed", "local_limited",
		"none", "over", "shadow_limited",
	}
	s.await(t, strings.Join(outcomes, " 1\n")+" 1\n", `sum by (outcome) (sluice_requests_total{outcome!="quota"}) > bool 0`)
}
