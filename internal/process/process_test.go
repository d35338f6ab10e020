package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// start runs a shell script, and returns when it has printed its first byte.
func start(t *testing.T, script string) *process.Process {
	t.Helper()
	out, in, err := os.Pipe()
	testenv.OK(t, err)
	defer out.Close()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout = in
	p, err := process.Start(cmd)
	in.Close()
	testenv.OK(t, err)
	t.Cleanup(p.Kill)
	_, err = out.Read(make([]byte, 1))
	testenv.OK(t, err)
	return p
}

const (
	obedient = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"
	stubborn = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
)

func TestStop(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		limit        time.Duration
		obeys        bool
		ends         string
	}{
		{name: "it ends when asked", script: obedient, limit: time.Minute, obeys: true, ends: "exit status 7"},
		{name: "it does not", script: stubborn, limit: 10 * time.Millisecond, obeys: false, ends: "signal: killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, test.script)
			if got := p.Stop(test.limit); got != test.obeys {
				t.Errorf("asking was enough: %v, want %v", got, test.obeys)
			}
			if err := p.Err(); err == nil || err.Error() != test.ends {
				t.Errorf("it ended with %v, want %s", err, test.ends)
			}
			if !p.Stop(test.limit) {
				t.Error("what has gone does not count as having ended when asked")
			}
		})
	}
}

func TestSignalToWhatHasEnded(t *testing.T) {
	t.Parallel()
	p := start(t, "echo bye")
	<-p.Exited()
	if err := p.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v, want %v", err, os.ErrProcessDone)
	}
	p.Kill() // does no harm
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	if _, err := process.Start(exec.Command("/no/such/program")); err == nil {
		t.Error("it was started")
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	notYet := errors.New("not yet")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	never := func(context.Context) error { return notYet }
	asked := 0
	third := func(context.Context) error {
		if asked++; asked < 3 {
			return notYet
		}
		return nil
	}
	gone := start(t, "echo bye")
	<-gone.Exited()
	for _, test := range []struct {
		name  string
		ctx   context.Context
		limit time.Duration
		ready func(context.Context) error
		want  error
	}{
		{name: "ready at the third time", ctx: t.Context(), limit: time.Minute, ready: third},
		{name: "never ready", ctx: t.Context(), limit: time.Millisecond, ready: never, want: notYet},
		{name: "canceled", ctx: canceled, limit: time.Minute, ready: never, want: context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := process.Await(test.ctx, test.limit, test.ready, start(t, obedient)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	t.Run("ended", func(t *testing.T) {
		err := process.Await(t.Context(), time.Minute, never, start(t, obedient), gone)
		testenv.SameError(t, "the wait", err, process.ErrEnded)
	})
}

func TestPingRedis(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, reply string
		ready       bool
	}{
		{name: "it serves", reply: "+PONG\r\n", ready: true},
		{name: "it wants a password", reply: "-NOAUTH Authentication required.\r\n", ready: true},
		{name: "it loads", reply: "-LOADING Redis is loading the dataset in memory\r\n"},
		{name: "it hangs up", reply: ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address := testenv.Listen(t, func(c net.Conn) {
				command := make([]byte, len("PING\r\n"))
				if _, err := io.ReadFull(c, command); err == nil && string(command) == "PING\r\n" {
					_, _ = io.WriteString(c, test.reply)
				}
			})
			if err := process.PingRedis(t.Context(), address); (err == nil) != test.ready {
				t.Errorf("got %v, want ready: %v", err, test.ready)
			}
		})
	}
}

func TestEnvoyReady(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		ready  bool
	}{
		{name: "it serves", status: http.StatusOK, ready: true},
		{name: "it starts", status: http.StatusServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/ready" {
					t.Errorf("asked for %s", r.URL)
				}
				w.WriteHeader(test.status)
			}))
			defer admin.Close()
			if err := process.EnvoyReady(t.Context(), strings.TrimPrefix(admin.URL, "http://")); (err == nil) != test.ready {
				t.Errorf("got %v, want ready: %v", err, test.ready)
			}
		})
	}
}

func TestLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", "head -c 3000 /dev/zero | tr '\\0' x; echo; echo the end >&2; exit 7")
	l, err := process.StartLogged("a shell", cmd, &out)
	testenv.OK(t, err)
	if err := l.Err(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("it ended with %v, want exit status 7", err)
	}
	if got := l.Last(); len(got) != 2000 || !strings.HasSuffix(got, "xxx\nthe end\n") {
		t.Errorf("it keeps %d bytes: %q; want the last 2000", len(got), got)
	}
	if got := out.Len(); got != 3000+len("\nthe end\n") {
		t.Errorf("%d bytes were copied", got)
	}
}

func TestFind(t *testing.T) {
	tools := t.TempDir()
	here := tools + "/.tools/bin/sluice-test-tool"
	testenv.OK(t, os.MkdirAll(tools+"/.tools/bin", 0o700))
	testenv.OK(t, os.WriteFile(here, []byte("#!/bin/sh\n"), 0o700))
	for _, test := range []struct{ name, root, variable, want, fails string }{
		{name: "installed", root: tools, want: here},
		{name: "named", root: "/none", variable: here, want: here},
		{name: "wrongly named", root: tools, variable: "/none", fails: "SLUICE_TEST_TOOL names no program"},
		{name: "missing", root: "/none", fails: `run "make tools"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("SLUICE_TEST_TOOL", test.variable)
			got, err := process.Find(test.root, "sluice-test-tool")
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if (err != nil) != (test.fails != "") {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			if err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
		})
	}
}
