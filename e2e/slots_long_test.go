package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSlotOfAWebSocket: a stream that lives for three times the ttl keeps its slot,
// through a reload, and through a Redis that restarted empty.
func TestSlotOfAWebSocket(t *testing.T) {
	t.Parallel()
	rule := fmt.Sprintf(slotRule, 1)
	s := start(t, rule, envoytest.Options{Discovered: true, Edit: func(c *envoyconf.Config) {
		c.Set(envoyconf.ConnectionManager+"/upgrade_configs", c.Fragment(`[{upgrade_type: websocket}]`))
	}})
	s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws" {
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		testenv.SameError(t, "to take the connection", err, nil)
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(conn, conn)
	}))
	conn := dial(t, s.Addr)
	fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "101") {
		t.Fatalf("%q, %v", line, err)
	}
	refused := func(during time.Duration) {
		t.Helper()
		for until := time.Now().Add(during); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
			client := newClient() // the new listener's
			r, err := send(ctx, client, s.URL)
			client.CloseIdleConnections()
			if err != nil || r.status != http.StatusTooManyRequests {
				t.Fatalf("status %d, %v; want 429", r.status, err)
			}
		}
	}
	refused(2 * time.Second)
	s.Discover(strings.Replace(rule, `"chat", "key"`, `"chat", "cost": 1, "key"`, 1))
	refused(slotTTL + 2*time.Second)
	s.redis.Restart()
	// It learns of the slot from a renewal, of the configuration that was replaced.
	s.awaitHeld(t, slotKey, 1)
	refused(slotTTL + 2*time.Second)
	if ttl := s.client.PTTL(ctx, s.prefix+slotKey).Val(); ttl <= 0 || ttl > slotTTL {
		t.Errorf("the slot ends in %v", ttl)
	}
	conn.Close()
	s.awaitHeld(t, slotKey, 0)
	testenv.Same(t, "status", get(t, s.URL).status, http.StatusOK)
}

// TestSlotsOfAKilledEnvoy: what it held is free after the ttl, and not before.
func TestSlotsOfAKilledEnvoy(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(obedient)).Addr
	rule := fmt.Sprintf(slotRule, 3)
	a := start(t, rule, envoytest.Options{Upstream: upstream})
	b := start(t, rule, envoytest.Options{Upstream: upstream, Redis: []string{a.redis.Addr}})
	for range 3 {
		hold(t, b.URL, "x-stay: yes")
	}
	time.Sleep(slotTTL / 2) // they have been renewed
	b.Kill()
	// Each slot is Redis' until its score, in microseconds.
	slots := a.client.ZRangeWithScores(ctx, a.prefix+slotKey, 0, -1).Val()
	testenv.Same(t, "slots of the killed Envoy", len(slots), 3)
	killed, ends := a.client.Time(ctx).Val(), time.UnixMicro(int64(slots[0].Score))
	if life := ends.Sub(killed); life <= 0 || life > slotTTL {
		t.Errorf("the first slot is free after %v, want %v at most", life, slotTTL)
	}
	for a.client.Time(ctx).Val().Before(ends) {
		status := get(t, a.URL).status
		if a.client.Time(ctx).Val().Before(ends) {
			testenv.Same(t, "status", status, http.StatusTooManyRequests)
		}
		time.Sleep(100 * time.Millisecond)
	}
	testenv.Wait(t, patience, func() error {
		if r := get(t, a.URL); r.status != http.StatusOK {
			return fmt.Errorf("status %d", r.status)
		}
		return nil
	})
}

// slotsWhileRedisIsAway: the failure mode decides, and slots that were taken before
// are given back when it is back.
var slotsWhileRedisIsAway = plain{
	name: "slots while Redis is away",
	config: `{"redis": {"cluster": "redis", "timeout": "1s"},
		"failure": {"breaker": {"failures": 1, "max_open": "200ms"}},
		"rules": [
		{"name": "chat", "key": [{"constant": "k"}],
			"limits": [{"algorithm": "concurrency", "limit": 2, "ttl": "1h"}]}]}`,
	worker: true,
	own:    redisWith(),
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(obedient))
		first, second := hold(t, s.URL, "x-stay: yes"), hold(t, s.URL, "x-stay: yes")
		s.awaitHeld(t, slotKey, 2)
		s.redis.Signal(syscall.SIGSTOP)
		for range 10 {
			testenv.Same(t, "status", get(t, s.URL).status, http.StatusOK)
		}
		first()
		time.Sleep(500 * time.Millisecond)
		second()
		time.Sleep(500 * time.Millisecond)
		s.redis.Signal(syscall.SIGCONT)
		s.awaitHeld(t, slotKey, 0)
	},
}
