package wasmhost

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// patience is for what happens on its own, on a busy machine.
const patience = 30 * time.Second

// What the guest does for each request of conformance, and what it logs.
//
//go:embed testdata/conformance/script.txt
var conformanceScript string

//go:embed testdata/conformance/envoy.yaml
var conformanceEnvoy string

// An exchange is one request. The upstream answers each with "hello", but for
// /redirect, which Envoy redirects to /redirected itself.
type exchange struct {
	method, path, body string
	headers            []string
	background         bool // the next one comes before its response
}

var conformance = []exchange{
	{method: "GET", path: "/headers", headers: []string{"X-Two", "one", "X-Two", "two"}},
	{method: "POST", path: "/body", body: "0123456789"},
	{method: "GET", path: "/reply"},
	{method: "GET", path: "/empty"},
	{method: "POST", path: "/plain", body: "body"},
	{method: "POST", path: "/grpc", body: "x", headers: []string{"content-type", "application/grpc"}},
	{method: "POST", path: "/grpc8", body: "x", headers: []string{"content-type", "application/grpc+proto"}},
	{method: "HEAD", path: "/head"},
	{method: "GET", path: "/late"},
	{method: "GET", path: "/pause", background: true},
	{method: "POST", path: "/pausebody", body: "abcdef", background: true},
	{method: "GET", path: "/resume"},
	{method: "POST", path: "/buffer", body: "abcdef", background: true},
	{method: "GET", path: "/unbuffer"},
	{method: "GET", path: "/waits", background: true},
	{method: "GET", path: "/deny", background: true},
	{method: "GET", path: "/unstick"},
	{method: "GET", path: "/dead"},
	{method: "GET", path: "/refused"},
	{method: "GET", path: "/echo"},
	{method: "GET", path: "/bye"},
	{method: "GET", path: "/cancel"},
	{method: "GET", path: "/redirect"},
}

// TestConformance has one guest do the same in a real Envoy and in a Host, and
// compares all it has seen: the callbacks, in order, with their arguments, and
// the result of every host call.
func TestConformance(t *testing.T) {
	t.Parallel()
	envoy := startEnvoy(t, testenv.Tool(t, "envoy"), conformanceScript)
	host := newConformanceHost(t, envoy.starts())
	compare(t, "start", envoy.configured(), host.configured())
	for _, x := range conformance {
		host.run(x)
		envoy.run(x)
		envoy.waitForLines(len(host.lines()))
	}
	seen, want := bySpeaker(host.lines()), bySpeaker(envoy.lines())
	for who := range want {
		compare(t, who, want[who], seen[who])
	}
	if len(seen) != len(want) {
		t.Errorf("%d contexts in Envoy, %d in the Host", len(want), len(seen))
	}
}

func compare(t *testing.T, what string, envoy, host []string) {
	t.Helper()
	if !slices.Equal(envoy, host) {
		t.Errorf("%s:\nEnvoy\n%s\n\nHost\n%s", what, strings.Join(envoy, "\n"), strings.Join(host, "\n"))
	}
}

// bySpeaker sorts the lines by the context that logged them: requests that run
// at the same time take turns in no order.
func bySpeaker(lines []string) map[string][]string {
	sorted, who := map[string][]string{}, ""
	for _, line := range lines {
		if !strings.HasPrefix(line, " ") {
			who = strings.Fields(line)[0]
		}
		sorted[who] = append(sorted[who], line)
	}
	return sorted
}

// A realEnvoy runs the guest with one worker.
type realEnvoy struct {
	t       *testing.T
	process *testenv.Process
	url     string
	started int // lines before the first exchange
}

func startEnvoy(t *testing.T, program, script string) *realEnvoy {
	dir := t.TempDir()
	wasm := filepath.Join(dir, "guest.wasm")
	if err := os.WriteFile(wasm, guest(t, "custommalloc"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := testenv.FreePort(t)
	config := strings.NewReplacer("@PORT@", fmt.Sprint(port), "@UPSTREAM@", upstreamPort(t), "@ECHO@", echoPort(t),
		"@REFUSED@", fmt.Sprint(testenv.FreePort(t)),
		"@GUEST@", wasm, "@SCRIPT@", fmt.Sprintf("%q", script)).Replace(conformanceEnvoy)
	file := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &realEnvoy{t: t, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	e.process = testenv.Run(t, nil, program, "-c", file, "--concurrency", "1", "--use-dynamic-base-id",
		"--log-format", "%v", "-l", "error", "--component-log-level", "wasm:info")
	testenv.Wait(t, patience, func() error {
		response, err := http.Get(e.url + "/first")
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	testenv.Wait(t, patience, func() error {
		if e.started = slices.Index(e.all(), "/first delete") + 1; e.started == 0 {
			return errors.New("the first stream has not ended")
		}
		return nil
	})
	return e
}

// all returns the guest's log in all VMs.
func (e *realEnvoy) all() (lines []string) {
	for line := range strings.Lines(e.process.Log()) {
		if rest, ok := strings.CutPrefix(line, "wasm log: "); ok {
			lines = append(lines, strings.TrimRight(rest, " \n"))
		}
	}
	return lines
}

func (e *realEnvoy) lines() []string { return e.all()[e.started:] }

// starts is how often Envoy has started the plugin: to try it, for its main
// thread and for its worker, which comes last.
func (e *realEnvoy) starts() (n int) {
	for _, line := range e.all() {
		if line == "plugin configure" {
			n++
		}
	}
	return n
}

// configured is the log of the worker's VM at its start.
func (e *realEnvoy) configured() []string {
	lines := e.all()
	lines = lines[:slices.Index(lines, "/first request_headers 1")]
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "plugin vm_start") {
			return lines[i:]
		}
	}
	return nil
}

func (e *realEnvoy) run(x exchange) {
	request, err := http.NewRequest(x.method, e.url+x.path, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if x.body != "" {
		request.Body = io.NopCloser(strings.NewReader(x.body)) // of unknown length: chunked
	}
	for pair := range slices.Chunk(x.headers, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	send := func() {
		if response, err := http.DefaultClient.Do(request.WithContext(e.t.Context())); err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	if x.background {
		go send()
	} else {
		send()
	}
}

func (e *realEnvoy) waitForLines(n int) {
	e.t.Helper()
	testenv.Wait(e.t, patience, func() error {
		if lines := e.lines(); len(lines) < n {
			return fmt.Errorf("Envoy's guest has logged %d lines of %d:\n%s", len(lines), n, strings.Join(lines, "\n"))
		}
		return nil
	})
}

// upstreamPort is where an HTTP server says hello.
func upstreamPort(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/redirect" {
			w.Header().Set("Location", "http://"+r.Host+"/redirected") // Envoy follows no relative one
			w.WriteHeader(http.StatusFound)
			return
		}
		w.(http.Flusher).Flush() // so that the length is not announced
		io.WriteString(w, "hello")
	}))
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return port
}

// echoPort is where gRPC frames are answered: "ping" by two messages in one
// piece, "bye" by the end of the connection.
func echoPort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 64)
				for n, err := conn.Read(b); err == nil && string(b[:n]) != "\x00\x00\x00\x00\x03bye"; n, err = conn.Read(b) {
					io.WriteString(conn, "\x00\x00\x00\x00\x04pong\x00\x00\x00\x00\x01a")
				}
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}
