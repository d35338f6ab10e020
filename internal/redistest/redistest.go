// Package redistest starts a real Redis for a test: one server or a cluster,
// on loopback, with no persistence, gone when the test ends.
package redistest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// busOffset is the distance from a cluster node's port to that of its bus.
// https://redis.io/docs/latest/operate/oss_and_stack/management/scaling/
const busOffset = 10000

// startLimit bounds the wait for a server to answer; a loaded machine may
// take seconds.
const startLimit = 60 * time.Second

// Server is one redis-server. Its methods are for the test's own goroutine.
type Server struct {
	*testenv.Process

	Addr string // "127.0.0.1:port"
	Port int

	t    testing.TB
	args []string
}

// Start runs a redis-server and returns when it answers commands. The
// arguments are added to its command line, such as "--requirepass", "secret".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := launch(t, testenv.FreePort(t), args)
	s.await()
	return s
}

// StartWithUser is Start with the user that the first lines of a file describe ("ACL SETUSER ..."), with
// a password in place of PASSWORD. It returns a client that may do anything, too.
func StartWithUser(t testing.TB, file, password string, args ...string) (*Server, *redis.Client) {
	t.Helper()
	_, rest, _ := strings.Cut(string(testenv.Read(t, file)), "ACL SETUSER ")
	user, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatalf("%s does not say which user Redis needs", file)
	}
	args = append(args, "--user", "default", "on", ">admin", "~*", "&*", "+@all", "--user")
	s := Start(t, append(args, strings.Fields(strings.Replace(user, "PASSWORD", password, 1))...)...)
	admin := redis.NewClient(&redis.Options{Addr: s.Addr, Password: "admin", Protocol: 2})
	t.Cleanup(func() { admin.Close() })
	return s, admin
}

// launch starts the process and does not wait for it.
func launch(t testing.TB, port int, args []string) *Server {
	t.Helper()
	s := &Server{
		Addr: fmt.Sprintf("127.0.0.1:%d", port),
		Port: port,
		t:    t,
		args: append(process.RedisArgs(t.TempDir(), port), args...),
	}
	s.run()
	return s
}

func (s *Server) run() {
	s.t.Helper()
	s.Process = testenv.Run(s.t, nil, testenv.Tool(s.t, "redis-server"), s.args...)
	// The default timeout is 50 ms, in which a busy machine may not give Redis its turn. Where the
	// tests may (as root), Redis goes first: it needs little.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, s.PID(), -10)
}

// await returns when the server answers, and fails the test at once when it
// has ended.
func (s *Server) await() {
	s.t.Helper()
	s.Await(startLimit, func(ctx context.Context) error { return process.PingRedis(ctx, s.Addr) })
}

// Scripted is an error unless a client has called scripts of this server. Its own replication calls none.
func (s *Server) Scripted() error {
	stats, err := s.Client().Info(context.Background(), "commandstats").Result()
	if err == nil && !strings.Contains(stats, "cmdstat_evalsha:") {
		err = fmt.Errorf("no client has called a script of %s", s.Addr)
	}
	return err
}

// Counters are the keys with a prefix, in order, but those of probes. Unlike DBSIZE it leaves out what has expired.
func Counters(t testing.TB, client redis.Cmdable, prefix string) []string {
	t.Helper()
	keys, err := client.Keys(context.Background(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":probe") })
}

// Client returns a client of this server that speaks RESP2, as the plugin
// does. It is closed when the test ends.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Restart ends the server if it runs, and starts it anew on the same port. It
// has lost its keys, and kept its place in a cluster.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.run()
	s.await()
}

// Signal sends the server a signal: SIGSTOP makes one that hangs, SIGCONT
// wakes it.
func (s *Server) Signal(sig os.Signal) {
	s.t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
