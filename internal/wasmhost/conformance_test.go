package wasmhost

import (
	_ "embed"
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
	{method: "GET", path: "/first"}, // with which Envoy shows that it is ready
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
	options := Options{
		Wasm:  guest(t, "custommalloc"),
		Envoy: NewEnvoy(),
		Clusters: map[string]Cluster{
			"dead":    &Memory{Refuse: GRPCUnavailable},
			"refused": refusing{},
			"echo":    &Memory{OnSend: echo},
		},
	}
	var host *Host // the last of as many VMs as Envoy has started, which share data and metrics
	var plugin *Plugin
	for range strings.Count(envoy.process.Log(), "plugin configure\n") {
		host = Start(t, options)
		plugin = startPlugin(t, host, conformanceScript)
	}
	var streams []*conformanceStream
	for i, x := range conformance {
		s := &conformanceStream{Stream: plugin.NewStream()}
		s.Properties["request.path"] = []byte(x.path)
		s.RequestHeaders(Request(x.method, x.path, x.headers...), x.body == "")
		if x.body != "" {
			s.RequestBody([]byte(x.body), false)
			s.RequestBody(nil, true)
		}
		streams = append(streams, s)
		host.Drain()
		for _, s := range streams {
			s.proceed()
		}
		if i > 0 {
			envoy.run(x)
		}
		testenv.Wait(t, patience, func() error {
			if got, want := len(envoy.lines()), len(logged(host)); got < want {
				return fmt.Errorf("Envoy's guest has logged %d lines of %d:\n%s", got, want, envoy.process.Log())
			}
			return nil
		})
	}
	// Requests that run at the same time take turns in no order: compare what each context has logged.
	var logs [2]map[string][]string
	for i, lines := range [2][]string{envoy.lines(), logged(host)} {
		who := ""
		logs[i] = map[string][]string{}
		for _, line := range lines {
			if !strings.HasPrefix(line, " ") {
				who = strings.Fields(line)[0]
			}
			logs[i][who] = append(logs[i][who], line)
		}
	}
	for who, want := range logs[0] {
		if seen := logs[1][who]; !slices.Equal(want, seen) {
			t.Errorf("%s:\nEnvoy\n%s\n\nHost\n%s", who, strings.Join(want, "\n"), strings.Join(seen, "\n"))
		}
	}
	testenv.Same(t, "the number of contexts in the Host", len(logs[1]), len(logs[0]))
}

// A realEnvoy runs the guest with one worker.
type realEnvoy struct {
	t       *testing.T
	process *testenv.Process
	url     string
}

// startEnvoy returns once the upstream has answered the first request.
func startEnvoy(t *testing.T, program, script string) *realEnvoy {
	dir := t.TempDir()
	wasm, file := filepath.Join(dir, "guest.wasm"), filepath.Join(dir, "envoy.yaml")
	upstream := httptest.NewServer(http.HandlerFunc(sayHello))
	t.Cleanup(upstream.Close)
	port := testenv.FreePort(t)
	config := strings.NewReplacer("@PORT@", fmt.Sprint(port), "@REFUSED@", fmt.Sprint(testenv.FreePort(t)),
		"@UPSTREAM@", portOf(upstream.Listener.Addr().String()), "@ECHO@", portOf(testenv.Listen(t, echoFrames)),
		"@GUEST@", wasm, "@SCRIPT@", fmt.Sprintf("%q", script)).Replace(conformanceEnvoy)
	testenv.OK(t, os.WriteFile(wasm, guest(t, "custommalloc"), 0o600))
	testenv.OK(t, os.WriteFile(file, []byte(config), 0o600))
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
	return e
}

// lines are the log of the guest in the worker's VM. Envoy has started others before, to try the plugin and for
// its main thread.
func (e *realEnvoy) lines() (lines []string) {
	for line := range strings.Lines(e.process.Log()) {
		rest, ok := strings.CutPrefix(line, "wasm log: ")
		if strings.HasPrefix(rest, "plugin vm_start") {
			lines = nil
		}
		if ok {
			lines = append(lines, strings.TrimRight(rest, " \n"))
		}
	}
	return lines
}

func (e *realEnvoy) run(x exchange) {
	request, err := http.NewRequest(x.method, e.url+x.path, nil)
	testenv.OK(e.t, err)
	if x.body != "" {
		request.Body = io.NopCloser(strings.NewReader(x.body)) // of unknown length: chunked
	}
	for pair := range slices.Chunk(x.headers, 2) {
		request.Header.Add(pair[0], pair[1])
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := http.DefaultClient.Do(request.WithContext(e.t.Context())); err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}()
	if !x.background {
		<-ended
	}
}

// sayHello is the upstream.
func sayHello(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	if r.URL.Path == "/redirect" {
		w.Header().Set("Location", "http://"+r.Host+"/redirected") // Envoy follows no relative one
		w.WriteHeader(http.StatusFound)
		return
	}
	w.(http.Flusher).Flush() // so that the length is not announced
	io.WriteString(w, "hello")
}

// echoFrames answers gRPC frames: "ping" by two messages in one piece, "bye" by the end of the connection.
func echoFrames(conn net.Conn) {
	b := make([]byte, 64)
	for n, err := conn.Read(b); err == nil && string(b[:n]) != "\x00\x00\x00\x00\x03bye"; n, err = conn.Read(b) {
		io.WriteString(conn, "\x00\x00\x00\x00\x04pong\x00\x00\x00\x00\x01a")
	}
}

func portOf(address string) string { return address[strings.LastIndex(address, ":")+1:] }
