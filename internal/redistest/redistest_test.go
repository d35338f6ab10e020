package redistest_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

var ctx = context.Background()

func TestStart(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t).Client()
	if err := c.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Get(ctx, "key").Result(); got != "value" || err != nil {
		t.Errorf("GET = %q, %v; want value", got, err)
	}
	for name, want := range map[string]string{"save": "", "appendonly": "no", "bind": "127.0.0.1"} {
		if got, err := c.ConfigGet(ctx, name).Result(); got[name] != want || err != nil {
			t.Errorf("CONFIG GET %s = %v, %v; want %q", name, got, err, want)
		}
	}
}

func TestStartWithPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "secret")
	if err := s.Client().Ping(ctx).Err(); !redis.HasErrorPrefix(err, "NOAUTH") {
		t.Errorf("PING without the password: %v, want NOAUTH", err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "secret"})
	t.Cleanup(func() { c.Close() })
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("PING with the password: %v", err)
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client()
	if err := c.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a killed server answers")
	}
	port := s.Port
	s.Restart()
	if s.Port != port {
		t.Errorf("port %d after the restart, was %d", s.Port, port)
	}
	if n, err := c.Exists(ctx, "key").Result(); n != 0 || err != nil {
		t.Errorf("EXISTS after the restart = %d, %v; want 0", n, err)
	}
}

func TestRestartOfRunning(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Restart()
	info, err := s.Client().Info(ctx, "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("process_id:%d\r\n", s.PID()); !strings.Contains(info, want) {
		t.Errorf("want the new server, %q, in %q", want, info)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: 50 * time.Millisecond})
	t.Cleanup(func() { c.Close() })
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGSTOP)
	testenv.Wait(t, time.Minute, func() error {
		if c.Ping(ctx).Err() == nil {
			return fmt.Errorf("a stopped server answers")
		}
		return nil
	})
	s.Signal(syscall.SIGCONT)
	testenv.Wait(t, time.Minute, func() error { return c.Ping(ctx).Err() })
}

// TestManyAtOnce fails when two servers are given one port.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	servers := make([]*redistest.Server, 8)
	for i := range servers {
		servers[i] = redistest.Start(t)
	}
	for i, s := range servers {
		if err := s.Client().Set(ctx, "server", i, 0).Err(); err != nil {
			t.Error(err)
		}
	}
	for i, s := range servers {
		if got, err := s.Client().Get(ctx, "server").Int(); got != i || err != nil {
			t.Errorf("server %d holds %d, %v", i, got, err)
		}
	}
}

func TestStartCluster(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 6} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, nodes)
			for i, node := range cluster.Nodes {
				want := "master"
				if i >= 3 {
					want = "slave"
				}
				if got := node.Client().Do(ctx, "ROLE").Val().([]any)[0]; got != want {
					t.Errorf("node %d is a %v, want %s", i, got, want)
				}
			}
			c := cluster.Client()
			for i := range 50 { // as good as surely some on each primary
				if err := c.Set(ctx, fmt.Sprint(i), i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for _, node := range cluster.Nodes[:3] {
				if n, err := node.Client().DBSize(ctx).Result(); n == 0 || err != nil {
					t.Errorf("%s holds %d keys, %v", node.Addr, n, err)
				}
			}
		})
	}
}
