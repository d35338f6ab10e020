package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	playScenarios(t, envoytest.Options{Redis: []string{server.Addr}}, client, []*redis.Client{client},
		scenario.Redis, scenario.Local)
}

// TestScenariosOnCluster plays those with Redis on a Redis Cluster, through redis_proxy.
func TestScenariosOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	opts := envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster}
	var nodes []*redis.Client
	for _, node := range cluster.Nodes {
		nodes = append(nodes, node.Client())
	}
	playScenarios(t, opts, cluster.Client(), nodes, scenario.Redis)
}

// playScenarios plays those of some stores in one Envoy, and another one that takes half of each burst. A
// scenario in the embedded store is in the first alone. All share VMs, and so the memory of that store.
func playScenarios(
	t *testing.T, opts envoytest.Options, client redis.UniversalClient, nodes []*redis.Client, stores ...scenario.Store,
) {
	t.Helper()
	worlds := map[string]*envoyWorld{}
	for _, f := range scenario.Files(t) {
		for _, store := range stores {
			worlds[f.Name+"/"+string(store)] = &envoyWorld{
				file: f, store: store, redis: client, nodes: nodes, logs: t.TempDir(),
			}
		}
	}
	opts.Plugin = `{` + patient + `"rules": [{"name": "r", ` + hundred + `}]}`
	opts.Upstream = envoytest.NewUpstream(t, nil).Addr
	for i := range 2 {
		opts.Edit = func(c *envoyconf.Config) {
			for name, w := range worlds {
				w.listen(t, c, strings.ReplaceAll(name, "/", "-"), i)
			}
		}
		envoytest.Start(t, opts)
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.file.Play(t, w.store, w)
		})
	}
}

// surroundings put around the limiter what scenarios name.
var surroundings = map[string]func(c *envoyconf.Config){
	"raw-paths": func(c *envoyconf.Config) {
		c.Set(envoyconf.ConnectionManager+"/normalize_path", false)
		c.Set(envoyconf.ConnectionManager+"/merge_slashes", false)
		c.Set(envoyconf.ConnectionManager+"/path_with_escaped_slashes_action", "KEEP_UNCHANGED")
	},
	"trusted-hop": func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/xff_num_trusted_hops", 1) },
	"trusting":    func(c *envoyconf.Config) { c.Set(envoyconf.ConnectionManager+"/use_remote_address", nil) },
	"claims": func(c *envoyconf.Config) {
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
		putFirst(c, []any{filter})
	},
	"tenant": func(c *envoyconf.Config) {
		putFirst(c, c.Fragment(`
- name: header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
    - header: x-tenant
      on_header_present: {metadata_namespace: tenants, key: name}
`))
	},
	"economy": func(c *envoyconf.Config) {
		c.Set(envoyconf.ConnectionManager+"/common_http_protocol_options/headers_with_underscores_action", "ALLOW")
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", c.Fragment(`
- match: {prefix: "/", headers: [{name: x-quota, present_match: true, invert_match: true}]}
  route: {cluster: upstream}
- match: {prefix: "/"}
  direct_response: {status: 202, body: {inline_string: economy}}
`))
	},
}

// putFirst puts a list of filters before Sluice.
func putFirst(c *envoyconf.Config, filters any) {
	const path = envoyconf.ConnectionManager + "/http_filters"
	c.Set(path, append(filters.([]any), c.Get(path).([]any)...))
}

// envoyWorld implements scenario.World for the scenarios of a file in one store. It is their upstream, too.
type envoyWorld struct {
	file  *scenario.File
	store scenario.Store
	redis redis.UniversalClient
	nodes []*redis.Client      // of the cluster, or the one Redis
	logs  string               // directory of the access logs
	urls  [2]map[string]string // of the listeners of each Envoy, by the names of configurations

	config *scenario.Config
	client *http.Client // one connection, and so one worker
	logged [2]int       // entries of the access logs that are read
	held   []*heldRequest

	mu       sync.Mutex
	upstream *scenario.Request // the last that has come
	answer   scenario.Answer   // of the upstream, if it has a status
	hold     *heldRequest      // which the next request is to be
}

// heldRequest is a request that the upstream holds.
type heldRequest struct {
	arrived, released chan struct{}
	upstream          *scenario.Request // once it has arrived
	answer            chan scenario.Answer
}

// listen adds the world's listeners to one of the Envoys.
func (w *envoyWorld) listen(t *testing.T, c *envoyconf.Config, cluster string, envoy int) {
	t.Helper()
	c.CopyCluster("upstream", cluster, envoytest.NewUpstream(t, http.HandlerFunc(w.serve)).Addr)
	limited := c.Get(envoyconf.Listener)
	w.urls[envoy] = map[string]string{}
	for _, s := range w.file.Configs {
		inSecond := s.Bursts && s.Store == scenario.Redis
		if s.Virtual || s.Store != w.store || envoy == 1 && !inSecond {
			continue
		}
		for name, put := range surroundings {
			if s.Has(name) {
				put(c)
			}
		}
		c.Set(envoyconf.ConnectionManager+"/access_log/0/typed_config/path", w.log(envoy, s.Name))
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes/0/route/cluster", cluster)
		port := testenv.FreePort(t)
		w.urls[envoy][s.Name] = fmt.Sprintf("http://127.0.0.1:%d", port)
		c.CopyListener(s.Name, port, s.JSON())
		c.Set(envoyconf.Listener, limited)
	}
}

func (w *envoyWorld) log(envoy int, config string) string {
	return filepath.Join(w.logs, fmt.Sprintf("%s-%d.log", config, envoy))
}

// serve is the upstream. It keeps what it gets.
func (w *envoyWorld) serve(rw http.ResponseWriter, r *http.Request) {
	got := &scenario.Request{Method: r.Method, Path: r.RequestURI, Headers: pairsOf(r.Header)}
	got.Headers = append(got.Headers, [2]string{"host", r.Host})
	w.mu.Lock()
	answer, hold := w.answer, w.hold
	if w.hold = nil; hold != nil {
		hold.upstream = got
	} else {
		w.upstream = got
	}
	w.mu.Unlock()
	if hold != nil {
		close(hold.arrived)
		select {
		case <-hold.released:
		case <-r.Context().Done():
		}
	}
	for _, h := range answer.Headers {
		rw.Header().Add(h[0], h[1])
	}
	if answer.Status != 0 {
		rw.WriteHeader(answer.Status)
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

// headersOf is a request as send takes it.
func headersOf(r *scenario.Request) (list []string) {
	list = append(list, ":method: "+r.Method, "host: example.com")
	for _, h := range r.Headers {
		list = append(list, h[0]+": "+h[1])
	}
	return list
}

// Load implements scenario.World.
func (w *envoyWorld) Load(t *testing.T, c *scenario.Config) {
	t.Helper()
	w.config, w.logged, w.client = c, [2]int{}, newClient()
	w.client.Transport = http2()
	t.Cleanup(w.client.CloseIdleConnections)
	w.Upstream(scenario.Answer{})
}

// send sends a request, which the upstream may hold, and returns the answer, and what the upstream has got. If it has
// got nothing, the body is Sluice's own.
func (w *envoyWorld) send(t *testing.T, r *scenario.Request, h *heldRequest) (a scenario.Answer) {
	t.Helper()
	got, err := send(context.Background(), w.client, w.urls[0][w.config.Name]+r.Path, headersOf(r)...)
	if err != nil {
		t.Error(err)
	}
	a.Status, a.Headers = got.status, pairsOf(got.header)
	w.mu.Lock()
	defer w.mu.Unlock()
	if h != nil {
		a.Upstream = h.upstream
	} else {
		a.Upstream, w.upstream = w.upstream, nil
	}
	if a.Upstream == nil {
		a.Body = got.body
	}
	return a
}

// Send implements scenario.World.
func (w *envoyWorld) Send(t *testing.T, requests []scenario.Request) (answers []scenario.Answer) {
	t.Helper()
	for i := range requests {
		answers = append(answers, w.send(t, &requests[i], nil))
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

// Burst implements scenario.World: over many connections, and over two Envoys that share a Redis.
func (w *envoyWorld) Burst(t *testing.T, n int, r *scenario.Request) (outcomes []string) {
	t.Helper()
	urls, of := []string{w.urls[0][w.config.Name] + r.Path}, [2]int{n}
	if w.store == scenario.Redis {
		urls, of = append(urls, w.urls[1][w.config.Name]+r.Path), [2]int{n / 2, n - n/2}
	}
	burst(t, n, min(n, 32), urls, headersOf(r)...)
	for envoy, requests := range of {
		for _, entry := range w.entries(t, envoy, requests) {
			outcomes = append(outcomes, fmt.Sprint(entry.Status, " ", entry.State))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upstream = nil
	return outcomes
}

// Hold implements scenario.World.
func (w *envoyWorld) Hold(t *testing.T, r *scenario.Request) (a scenario.Answer, held bool) {
	t.Helper()
	h := &heldRequest{make(chan struct{}), make(chan struct{}), nil, make(chan scenario.Answer, 1)}
	w.mu.Lock()
	w.hold = h
	w.mu.Unlock()
	go func() { h.answer <- w.send(t, r, h) }()
	select {
	case <-h.arrived:
		w.held = append(w.held, h)
		return a, true
	case a = <-h.answer:
	}
	w.mu.Lock()
	w.hold = nil
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
		text, err := os.ReadFile(w.log(envoy, w.config.Name))
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
	w.answer = a
}

// Redis implements scenario.World. KEYS are those of all nodes, sorted, without those of probes, which vanish at once.
func (w *envoyWorld) Redis(t *testing.T, words []string) string {
	t.Helper()
	if words[0] != "KEYS" {
		var args []any
		for _, word := range words {
			args = append(args, word)
		}
		reply, err := w.redis.Do(t.Context(), args...).Result()
		testenv.OK(t, err)
		return fmt.Sprint(reply)
	}
	var all []string
	for _, node := range w.nodes {
		keys, err := node.Keys(t.Context(), words[1]).Result()
		testenv.OK(t, err)
		all = append(all, keys...)
	}
	all = slices.DeleteFunc(all, func(key string) bool { return strings.HasSuffix(key, ":probe") })
	slices.Sort(all)
	return strings.Join(all, "\n")
}
