package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/scenario"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestScenarios plays the scenarios that do not depend on the time, see package scenario, with Redis
// and with the embedded store: in one Envoy, with a listener and a prefix in Redis for each.
func TestScenarios(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	playScenarios(t, envoytest.Options{Redis: []string{server.Addr}}, client, []redis.Cmdable{client},
		scenario.Redis, scenario.Local)
}

// TestScenariosOnCluster plays those with Redis on a Redis Cluster, through redis_proxy.
func TestScenariosOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	opts := envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster}
	var nodes []redis.Cmdable
	for _, node := range cluster.Nodes {
		nodes = append(nodes, node.Client())
	}
	playScenarios(t, opts, cluster.Client(), nodes, scenario.Redis)
}

// playScenarios plays those of some stores in one Envoy.
func playScenarios(
	t *testing.T, opts envoytest.Options, client commander, nodes []redis.Cmdable, stores ...scenario.Store,
) {
	t.Helper()
	files := scenario.Files(t)
	e := startScenarios(t, opts, files)
	e.redis, e.nodes = client, nodes
	for _, f := range files {
		for _, store := range stores {
			t.Run(f.Name+"/"+string(store), func(t *testing.T) {
				t.Parallel()
				f.Play(t, store, &envoyWorld{scenarioEnvoy: e})
			})
		}
	}
}

// commander is a client of one Redis, or of a cluster.
type commander interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// scenarioEnvoy is the Envoy of all scenarios.
type scenarioEnvoy struct {
	redis commander
	nodes []redis.Cmdable // of the cluster, or the one Redis
	// One Envoy for all requests, and another one that takes half of each burst. A scenario in the
	// embedded store is in the first alone.
	envoys [2]scenarioListeners

	mu       sync.Mutex
	upstream map[string]*scenario.Request // the last request, by the configuration
	answers  map[string]scenario.Answer   // of the upstream, other than 200
	holds    map[string]*heldRequest      // that the upstream is to hold, the next of a configuration
}

// scenarioListeners are those of one Envoy.
type scenarioListeners struct {
	addrs map[string]string // by the names of configurations
	dir   string            // of the access logs, one for each listener
}

// heldRequest is a request that the upstream holds.
type heldRequest struct {
	arrived, released chan struct{}
	upstream          *scenario.Request // once it has arrived
	answer            chan scenario.Answer
}

// fromListener is the header that says to the upstream which listener a request came from.
const fromListener = "x-scenario"

func startScenarios(t *testing.T, opts envoytest.Options, files []*scenario.File) *scenarioEnvoy {
	t.Helper()
	e := &scenarioEnvoy{
		upstream: map[string]*scenario.Request{}, answers: map[string]scenario.Answer{}, holds: map[string]*heldRequest{},
	}
	opts.Upstream = envoytest.NewUpstream(t, http.HandlerFunc(e.serve)).Addr
	opts.Plugin = `{` + patient + `"rules": [{"name": "r", ` + hundred + `}]}`
	for i := range e.envoys {
		l := &e.envoys[i]
		*l = scenarioListeners{addrs: map[string]string{}, dir: t.TempDir()}
		opts.Edit = func(c *envoyconf.Config) {
			for _, f := range files {
				for _, s := range f.Configs {
					if !s.Virtual && (i == 0 || s.Bursts && s.Store == scenario.Redis) {
						l.listen(t, c, s)
					}
				}
			}
		}
		envoytest.Start(t, opts)
	}
	return e
}

// serve is the upstream. It keeps what it gets.
func (e *scenarioEnvoy) serve(w http.ResponseWriter, r *http.Request) {
	name := r.Header.Get(fromListener)
	r.Header.Del(fromListener)
	got := &scenario.Request{Method: r.Method, Path: r.RequestURI, Headers: pairsOf(r.Header)}
	got.Headers = append(got.Headers, [2]string{"host", r.Host})
	e.mu.Lock()
	answer, hold := e.answers[name], e.holds[name]
	if hold != nil {
		hold.upstream = got
	} else {
		e.upstream[name] = got
	}
	delete(e.holds, name)
	e.mu.Unlock()
	if hold != nil {
		close(hold.arrived)
		select {
		case <-hold.released:
		case <-r.Context().Done():
		}
	}
	for _, h := range answer.Headers {
		w.Header().Add(h[0], h[1])
	}
	if answer.Status != 0 {
		w.WriteHeader(answer.Status)
	}
}

// pairsOf is header fields one by one.
func pairsOf(header http.Header) (list [][2]string) {
	for name, values := range header {
		for _, value := range values {
			list = append(list, [2]string{strings.ToLower(name), value})
		}
	}
	return list
}

// surroundings put around a limiter what scenarios name; manager is the path of its connection manager.
var surroundings = map[string]func(c *envoyconf.Config, manager string){
	"raw-paths": func(c *envoyconf.Config, manager string) {
		c.Set(manager+"/normalize_path", false)
		c.Set(manager+"/merge_slashes", false)
		c.Set(manager+"/path_with_escaped_slashes_action", "KEEP_UNCHANGED")
	},
	"trusted-hop": func(c *envoyconf.Config, manager string) { c.Set(manager+"/xff_num_trusted_hops", 1) },
	"trusting":    func(c *envoyconf.Config, manager string) { c.Set(manager+"/use_remote_address", nil) },
	"claims": func(c *envoyconf.Config, manager string) {
		var metadata []any
		for namespace, value := range scenario.Claims() {
			metadata = append(metadata, map[string]any{"metadata_namespace": namespace, "value": value})
		}
		filter := c.Fragment(`
name: set_metadata
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
`).(map[string]any)
		filter["typed_config"].(map[string]any)["metadata"] = metadata
		putFirst(c, manager, []any{filter})
	},
	"tenant": func(c *envoyconf.Config, manager string) {
		putFirst(c, manager, c.Fragment(`
- name: header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
    - header: x-tenant
      on_header_present: {metadata_namespace: tenants, key: name}
`))
	},
	"economy": func(c *envoyconf.Config, manager string) {
		c.Set(manager+"/common_http_protocol_options/headers_with_underscores_action", "ALLOW")
		c.Set(manager+"/route_config/virtual_hosts/all/routes", c.Fragment(`
- match: {prefix: "/", headers: [{name: x-quota, present_match: true}]}
  direct_response: {status: 202, body: {inline_string: economy}}
- match: {prefix: "/"}
  route: {cluster: upstream}
`))
	},
}

// putFirst puts a list of filters before those of a connection manager.
func putFirst(c *envoyconf.Config, manager string, filters any) {
	path := manager + "/http_filters"
	c.Set(path, append(filters.([]any), c.Get(path).([]any)...))
}

// listen adds the listener of a configuration. All share VMs, and so the memory of the embedded store.
func (l *scenarioListeners) listen(t *testing.T, c *envoyconf.Config, s *scenario.Config) {
	t.Helper()
	port := testenv.FreePort(t)
	l.addrs[s.Name] = fmt.Sprintf("127.0.0.1:%d", port)
	c.CopyListener(s.Name, port, s.JSON())
	inside := func(path string) string {
		return "static_resources/listeners/" + s.Name + strings.TrimPrefix(path, envoyconf.Listener)
	}
	manager := inside(envoyconf.ConnectionManager)
	c.Set(manager+"/access_log/0/typed_config/path", l.log(s.Name))
	c.Set(manager+"/route_config/request_headers_to_add", []any{
		map[string]any{"header": map[string]any{"key": fromListener, "value": s.Name}},
	})
	for name, put := range surroundings {
		if s.Has(name) {
			put(c, manager)
		}
	}
}

func (l *scenarioListeners) log(name string) string { return filepath.Join(l.dir, name+".log") }

// envoyWorld implements scenario.World.
type envoyWorld struct {
	*scenarioEnvoy

	config *scenario.Config
	client *http.Client // one connection, and so one worker
	logged [2]int       // entries of the access logs that are read
	held   []*heldRequest
}

// Load implements scenario.World.
func (w *envoyWorld) Load(t *testing.T, c *scenario.Config) {
	t.Helper()
	w.config, w.logged = c, [2]int{}
	w.client = newClient()
	w.client.Transport = http2()
	t.Cleanup(w.client.CloseIdleConnections)
}

// Send implements scenario.World.
func (w *envoyWorld) Send(t *testing.T, requests []scenario.Request) (answers []scenario.Answer) {
	t.Helper()
	for i := range requests {
		a, err := w.send(t.Context(), &requests[i])
		testenv.OK(t, err)
		answers = append(answers, to(w.last(), a))
	}
	for i, entry := range w.entries(t, 0, len(requests)) {
		answers[i].Outcome = entry.State
		isLimiters := strings.HasPrefix(entry.State, "limited:") || strings.HasPrefix(entry.State, "blocked:")
		if want := strings.ReplaceAll(entry.State, " ", "_"); isLimiters && entry.Details != want {
			t.Errorf("response code details %q, want the outcome %q", entry.Details, want)
		}
	}
	return answers
}

// last takes the request that the upstream has got since.
func (w *envoyWorld) last() *scenario.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.upstream[w.config.Name]
	delete(w.upstream, w.config.Name)
	return r
}

// to is an answer to a request that the upstream has got; nil: the answer is Sluice's own.
func to(r *scenario.Request, a scenario.Answer) scenario.Answer {
	if a.Upstream = r; r != nil {
		a.Body = ""
	}
	return a
}

func (w *envoyWorld) send(ctx context.Context, r *scenario.Request) (a scenario.Answer, err error) {
	resp, err := w.do(ctx, w.client, 0, r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a.Status, a.Headers, a.Body = resp.StatusCode, pairsOf(resp.Header), string(body)
	return a, err
}

// do sends a request to one of the Envoys.
func (w *envoyWorld) do(
	ctx context.Context, client *http.Client, envoy int, r *scenario.Request,
) (*http.Response, error) {
	url := "http://" + w.envoys[envoy].addrs[w.config.Name] + r.Path
	req, err := http.NewRequestWithContext(ctx, r.Method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Host = "example.com"
	req.Header["User-Agent"] = nil
	for _, h := range r.Headers {
		if h[0] == "host" {
			req.Host = h[1]
		} else {
			req.Header.Add(h[0], h[1])
		}
	}
	return client.Do(req)
}

// Burst implements scenario.World: over many connections, and over two Envoys that share a Redis.
func (w *envoyWorld) Burst(t *testing.T, n int, r *scenario.Request) (outcomes []string) {
	t.Helper()
	envoys := 1
	if w.config.Store == scenario.Redis {
		envoys = 2
	}
	var group sync.WaitGroup
	var next atomic.Int64
	for range min(n, 32) {
		group.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				resp, err := w.do(t.Context(), client, i%envoys, r)
				if err != nil {
					t.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	group.Wait()
	w.last()
	ofSecond := (n + 1) / 2 * (envoys - 1)
	for envoy, requests := range []int{n - ofSecond, ofSecond} {
		for _, entry := range w.entries(t, envoy, requests) {
			outcomes = append(outcomes, fmt.Sprint(entry.Status, " ", entry.State))
		}
	}
	return outcomes
}

// Hold implements scenario.World.
func (w *envoyWorld) Hold(t *testing.T, r *scenario.Request) (a scenario.Answer, held bool) {
	t.Helper()
	h := &heldRequest{make(chan struct{}), make(chan struct{}), nil, make(chan scenario.Answer, 1)}
	w.mu.Lock()
	w.holds[w.config.Name] = h
	w.mu.Unlock()
	go func() {
		a, err := w.send(context.Background(), r)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		h.answer <- to(h.upstream, a)
	}()
	select {
	case <-h.arrived:
		w.held = append(w.held, h)
		return a, true
	case a = <-h.answer:
	}
	w.mu.Lock()
	delete(w.holds, w.config.Name)
	w.mu.Unlock()
	a.Outcome = w.entries(t, 0, 1)[0].State
	return a, false
}

// Release implements scenario.World.
func (w *envoyWorld) Release(t *testing.T) scenario.Answer {
	t.Helper()
	h := w.held[0]
	w.held = w.held[1:]
	close(h.released)
	a := <-h.answer
	a.Outcome = w.entries(t, 0, 1)[0].State
	return a
}

// entries are those of the last requests in the access log of an Envoy.
func (w *envoyWorld) entries(t *testing.T, envoy, requests int) (last []envoytest.Entry) {
	t.Helper()
	if requests == 0 {
		return nil
	}
	logged := &w.logged[envoy]
	testenv.Wait(t, patience, func() error {
		text, err := os.ReadFile(w.envoys[envoy].log(w.config.Name))
		if err != nil {
			return err
		}
		last = envoytest.ParseEntries(t, text)
		return atLeast(len(last), *logged+requests, "access log entries")
	})
	last = last[*logged:]
	*logged += requests
	return last
}

// Upstream implements scenario.World.
func (w *envoyWorld) Upstream(a scenario.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[w.config.Name] = a
}

// Redis implements scenario.World.
func (w *envoyWorld) Redis(t *testing.T, words []string) string {
	t.Helper()
	if words[0] == "KEYS" {
		return w.keys(t, words[1])
	}
	var args []any
	for _, word := range words {
		args = append(args, word)
	}
	reply, err := w.redis.Do(t.Context(), args...).Result()
	testenv.OK(t, err)
	return fmt.Sprint(reply)
}

// keys are those of all nodes, sorted, without those of probes, which vanish at once.
func (w *envoyWorld) keys(t *testing.T, pattern string) string {
	t.Helper()
	var all []string
	for _, node := range w.nodes {
		keys, err := node.Keys(t.Context(), pattern).Result()
		testenv.OK(t, err)
		all = append(all, keys...)
	}
	all = slices.DeleteFunc(all, func(key string) bool { return strings.HasSuffix(key, ":probe") })
	slices.Sort(all)
	return strings.Join(all, "\n")
}
