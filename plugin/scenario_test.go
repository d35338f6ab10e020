package main

import (
	"encoding/binary"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/scenario"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestScenarios plays all scenarios as Go and as the built wasm, with a Redis in memory and with the
// embedded store, see package scenario.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, f := range scenario.Files(t) {
		for _, store := range []scenario.Store{scenario.Redis, scenario.Local} {
			for name, world := range map[string]world{"go": native, "wasm": wasm} {
				if scenario.Rewriting() && name != "go" {
					continue
				}
				t.Run(f.Name+"/"+string(store)+"/"+name, func(t *testing.T) {
					if !scenario.Rewriting() {
						t.Parallel()
					}
					f.Play(t, store, &virtualWorld{world: world})
				})
			}
		}
	}
}

// virtualWorld implements scenario.Virtual: a worker beside a Redis of twins.
type virtualWorld struct {
	world  world
	config *scenario.Config
	worker *worker
	*instance
	redis    *twinredis.Server
	conns    []*twinConn
	upstream scenario.Answer
	down     bool // Redis
	sent     int  // messages to Redis
	held     []*wasmhost.Stream
}

// Load implements scenario.World.
func (v *virtualWorld) Load(t *testing.T, c *scenario.Config) {
	t.Helper()
	v.config, v.conns, v.redis, v.upstream = c, nil, twinredis.New(), scenario.Answer{Status: 200}
	v.down, v.held = false, nil
	w := newWorker(t, v.world)
	v.worker = w
	w.properties = wasmhost.Properties{}
	if v.config.Has("claims") {
		claims := scenario.Claims()
		addProperties(w.properties, "metadata\x00filter_metadata", claims)
		w.attributes = map[string]any{"metadata": map[string]any{"filter_metadata": claims}}
	}
	if v.config.Has("usage") {
		typed, untyped := scenario.Usage()
		w.attributes = map[string]any{
			"metadata": map[string]any{"typed_filter_metadata": typed, "filter_metadata": untyped},
		}
	}
	if v.config.Has("secret") {
		w.setenv("SLUICE_HASH_SECRET", "0123456789abcdef\r\n")
	}
	w.connect(v)
	cfg, err := config.Parse([]byte(c.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rule.Compile(cfg, simExpressions{})
	if err != nil {
		t.Fatal(err)
	}
	v.redis.Know(rules)
	v.instance = w.load(c.JSON())
}

// addProperties adds metadata as Envoy has it for proxy_get_property: numbers are doubles.
func addProperties(properties wasmhost.Properties, path string, tree map[string]any) {
	for name, value := range tree {
		switch at := path + "\x00" + name; value := value.(type) {
		case map[string]any:
			addProperties(properties, at, value)
		case string:
			properties[at] = []byte(value)
		case float64:
			properties[at] = binary.LittleEndian.AppendUint64(nil, math.Float64bits(value))
		case bool:
			properties[at] = []byte{byte(boolResult(value))}
		}
	}
}

// Send implements scenario.World.
func (v *virtualWorld) Send(_ *testing.T, requests []scenario.Request) (answers []scenario.Answer) {
	for i := range requests {
		answers = append(answers, v.send(&requests[i]))
	}
	return answers
}

func (v *virtualWorld) send(r *scenario.Request) (a scenario.Answer) {
	before := v.sent
	s := v.open(r)
	v.settle()
	sent := v.sent - before
	if s.RequestPaused() && s.Local == nil {
		return a
	}
	a = v.finish(s)
	a.Sent = sent
	return a
}

// open brings a request.
func (v *virtualWorld) open(r *scenario.Request) *wasmhost.Stream {
	headers := wasmhost.Request(r.Method, r.Path)
	s := v.NewStream()
	address := "127.0.0.1"
	for _, h := range r.Headers {
		name, value := strings.ToLower(h[0]), h[1]
		switch {
		case name == "host":
			headers[2][1] = value
			continue
		case name == "x-forwarded-for" && (v.config.Has("trusted-hop") || v.config.Has("trusting")):
			address = strings.TrimSpace(value[strings.LastIndexByte(value, ',')+1:])
		case name == "user-agent":
			s.Properties["request.useragent"] = []byte(value)
		case name == "x-tenant" && v.config.Has("tenant"):
			s.Properties["metadata\x00filter_metadata\x00tenants\x00name"] = []byte(value)
		}
		headers = append(headers, [2]string{name, value})
	}
	s.Properties["source.address"] = []byte(net.JoinHostPort(address, "40000"))
	s.RequestHeaders(headers, true)
	return s
}

// finish has the upstream answer a request that was not answered in its place, and ends it.
func (v *virtualWorld) finish(s *wasmhost.Stream) (a scenario.Answer) {
	if s.Local == nil {
		if _, over := s.Upstream.Headers.Get("x-quota"); over && v.config.Has("economy") {
			s.ResponseHeaders(wasmhost.Response("202", "content-type", "text/plain"), false)
			s.ResponseBody([]byte("economy"), true)
		} else {
			a.Upstream = upstreamRequest(s.Upstream.Headers)
			headers := map[string]any{}
			for _, h := range v.upstream.Headers {
				headers[h[0]] = h[1]
			}
			s.Attributes = map[string]any{"response": map[string]any{"code": v.upstream.Status, "headers": headers}}
			s.ResponseHeaders(append(wasmhost.Response(strconv.Itoa(v.upstream.Status)), v.upstream.Headers...), true)
		}
	} else if want := strings.ReplaceAll(string(s.FilterState["wasm.sluice"]), " ", "_"); s.Local.Details != want {
		v.worker.t.Errorf("response code details %q, want the outcome %q", s.Local.Details, want)
	}
	a.Body = string(s.Downstream.Body)
	s.End()
	v.settle()
	a.Status = whole(v.worker.t, "status", s.Downstream.Headers[0][1])
	a.Outcome, a.Headers = string(s.FilterState["wasm.sluice"]), s.Downstream.Headers[1:]
	a.Rejected = string(s.FilterState["wasm.sluice.rejected"])
	return a
}

// Burst implements scenario.World.
func (v *virtualWorld) Burst(_ *testing.T, n int, r *scenario.Request) (outcomes []string) {
	var all []*wasmhost.Stream
	for range n {
		all = append(all, v.open(r))
	}
	waits := func(s *wasmhost.Stream) bool { return s.RequestPaused() && s.Local == nil }
	v.settle()
	for n := 0; n < 50 && slices.ContainsFunc(all, waits); n++ { // one callback concludes some hundred of them
		v.Pass(20 * time.Millisecond)
	}
	for _, s := range all {
		if waits(s) {
			outcomes = append(outcomes, "waits")
			continue
		}
		a := v.finish(s)
		outcomes = append(outcomes, strconv.Itoa(a.Status)+" "+a.Outcome)
	}
	return outcomes
}

// Hold implements scenario.World.
func (v *virtualWorld) Hold(_ *testing.T, r *scenario.Request) (a scenario.Answer, held bool) {
	s := v.open(r)
	v.settle()
	if s.RequestPaused() || s.Local != nil {
		return v.finish(s), false
	}
	v.held = append(v.held, s)
	return a, true
}

// Release implements scenario.World.
func (v *virtualWorld) Release(*testing.T) scenario.Answer {
	s := v.held[0]
	v.held = v.held[1:]
	return v.finish(s)
}

// upstreamRequest is what an upstream gets.
func upstreamRequest(headers wasmhost.Pairs) *scenario.Request {
	r := &scenario.Request{}
	for _, h := range headers {
		switch h[0] {
		case ":method":
			r.Method = h[1]
		case ":path":
			r.Path = h[1]
		case ":authority":
			r.Headers = append(r.Headers, [2]string{"host", h[1]})
		case ":scheme":
		default:
			r.Headers = append(r.Headers, h)
		}
	}
	return r
}

// Upstream implements scenario.World.
func (v *virtualWorld) Upstream(a scenario.Answer) { v.upstream = a }

// Redis implements scenario.World.
func (v *virtualWorld) Redis(t *testing.T, words []string) string {
	t.Helper()
	now := v.worker.clock.now.UnixMicro()
	switch {
	case words[0] == "KEYS":
		var keys []string
		v.redis.Keys(now, func(key string) { keys = append(keys, key) })
		slices.Sort(keys)
		return strings.Join(keys, "\n")
	case words[0] == "SET" && len(words) == 3:
		v.redis.Set(words[1], words[2], 0, now)
	case words[0] == "SET" && len(words) == 5 && words[3] == "PX":
		v.redis.Set(words[1], words[2], int64(whole(t, "PX", words[4]))*1000, now)
	case words[0] == "DEL":
		v.redis.Delete(words[1])
		return "1"
	default:
		t.Fatalf("a Redis in memory does not know %q", words)
	}
	return "OK"
}

// Pass implements scenario.Virtual.
func (v *virtualWorld) Pass(d time.Duration) {
	c := v.worker.clock
	end := c.now.Add(d)
	for v.arm(); v.period > 0 && !v.due.After(end); v.arm() {
		c.now = v.due
		v.due = v.due.Add(v.period)
		v.Tick()
		v.settle()
	}
	c.now = end
}

// Fault implements scenario.Virtual.
func (v *virtualWorld) Fault(down bool) {
	v.down = down
	if down {
		for _, c := range v.conns {
			c.near.Close(wasmhost.GRPCUnknown)
		}
		v.conns = nil
	}
}

// Metrics implements scenario.Virtual.
func (v *virtualWorld) Metrics() map[string]int64 {
	v.Pass(1100 * time.Millisecond)
	return v.worker.stats()
}

// Log implements scenario.Virtual.
func (v *virtualWorld) Log() []string { return v.worker.logs() }

// twinConn is a connection to the Redis of twins, which answers once the world settles.
type twinConn struct {
	world *virtualWorld
	near  wasmhost.NearEnd
	sent  []byte
}

// Open implements wasmhost.Cluster.
func (v *virtualWorld) Open(near wasmhost.NearEnd) wasmhost.Peer {
	c := &twinConn{world: v, near: near}
	if v.down {
		near.Close(wasmhost.GRPCUnavailable)
		return c
	}
	v.conns = append(v.conns, c)
	return c
}

// Send implements wasmhost.Peer.
func (c *twinConn) Send(message []byte) {
	c.world.sent++
	c.sent = append(c.sent, message...)
}

// Cancel implements wasmhost.Peer.
func (c *twinConn) Cancel() { c.sent = nil }

// settle brings all replies, and those to what is sent meanwhile.
func (v *virtualWorld) settle() {
	for again := true; again; {
		again = false
		for _, c := range v.conns {
			if sent := c.sent; len(sent) > 0 {
				c.sent, again = nil, true
				c.near.Receive(v.redis.Receive(nil, sent, v.worker.clock.now.UnixMicro()))
			}
		}
	}
}
