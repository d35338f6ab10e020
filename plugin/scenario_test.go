package main

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/scenario"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
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
	*twinRedis
	*instance

	world    world
	config   *scenario.Config
	every    time.Duration // how often Redis answers; 0: at once
	answered time.Time     // when it did
	upstream scenario.Answer
	held     []*exchange
}

// Load implements scenario.World.
func (v *virtualWorld) Load(t *testing.T, c *scenario.Config) {
	t.Helper()
	w := newWorker(t, v.world)
	*v = virtualWorld{world: v.world, config: c, twinRedis: w.startRedis(), upstream: scenario.Answer{Status: 200}}
	if v.config.Has("claims") {
		claims := scenario.Claims()
		addProperties(w.Properties, "metadata\x00filter_metadata", claims)
		w.Attributes = map[string]any{"metadata": map[string]any{"filter_metadata": claims}}
	}
	if v.config.Has("usage") {
		typed, untyped := scenario.Usage()
		w.Attributes = map[string]any{
			"metadata": map[string]any{"typed_filter_metadata": typed, "filter_metadata": untyped},
		}
	}
	if v.config.Has("secret") {
		w.Env["SLUICE_HASH_SECRET"] = "0123456789abcdef\r\n"
	}
	v.instance = w.load(c.JSON())
	v.ticked = v.settle
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
			properties[at] = []byte(testenv.Doubles(value))
		case bool:
			properties[at] = []byte{byte(boolResult(value))}
		}
	}
}

// Send implements scenario.World.
func (v *virtualWorld) Send(_ *testing.T, requests []scenario.Request) (answers []scenario.Answer) {
	for i := range requests {
		before := v.writes
		x := v.open(&requests[i])
		v.settle()
		sent := v.writes - before
		a := v.finish(x)
		a.Sent = sent
		answers = append(answers, a)
	}
	return answers
}

// open brings a request.
func (v *virtualWorld) open(r *scenario.Request) *exchange {
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
	return &exchange{Stream: s, t: v.worker.t}
}

// finish has the upstream answer a request that was not answered in its place, and ends it unless it waits.
func (v *virtualWorld) finish(x *exchange) scenario.Answer {
	var through *scenario.Request // what the upstream gets
	switch _, over := x.Upstream.Headers.Get("x-quota"); {
	case x.waits():
		return scenario.Answer{}
	case x.Local != nil:
	case over && v.config.Has("economy"):
		x.ResponseHeaders(wasmhost.Response("202", "content-type", "text/plain"), false)
		x.ResponseBody([]byte("economy"), true)
	default:
		through = &scenario.Request{}
		through.Method, _ = x.Upstream.Headers.Get(":method")
		through.Path, _ = x.Upstream.Headers.Get(":path")
		for _, h := range x.Upstream.Headers {
			if h[0] = strings.Replace(h[0], ":authority", "host", 1); h[0][0] != ':' {
				through.Headers = append(through.Headers, h)
			}
		}
		headers := map[string]any{}
		for _, h := range v.upstream.Headers {
			headers[h[0]] = h[1]
		}
		x.Attributes = map[string]any{"response": map[string]any{"code": v.upstream.Status, "headers": headers}}
		x.ResponseHeaders(append(wasmhost.Response(strconv.Itoa(v.upstream.Status)), v.upstream.Headers...), true)
	}
	a := x.answer()
	a.Body, a.Upstream, a.Rejected = string(x.Downstream.Body), through, string(x.FilterState["wasm.sluice.rejected"])
	x.End()
	v.settle()
	return a
}

// openEach brings a request so many times. A value "a%3" is a0, a1, a2 and a0 again.
func (v *virtualWorld) openEach(n int, r *scenario.Request) (all []*exchange) {
	for i := range n {
		one := scenario.Request{Method: r.Method, Path: r.Path}
		for _, h := range r.Headers {
			if begin, number, inTurn := strings.Cut(h[1], "%"); inTurn {
				of, _ := strconv.Atoi(number)
				h[1] = begin + strconv.Itoa(i%of)
			}
			one.Headers = append(one.Headers, h)
		}
		all = append(all, v.open(&one))
	}
	return all
}

// Burst implements scenario.World.
func (v *virtualWorld) Burst(_ *testing.T, n int, r *scenario.Request) (outcomes []string) {
	all := v.openEach(n, r)
	v.settle()
	if v.every > 0 { // a verdict comes within the timeout and a tick; one callback finds some hundred of them
		v.Pass(50*time.Millisecond + tickOf(50*time.Millisecond) + timerStep + time.Duration(n/512)*time.Millisecond)
		late := func(x *exchange) bool { return x.waits() && x.outcome() == "" }
		if slices.ContainsFunc(all, late) {
			v.worker.t.Error("a request has no verdict in time")
		}
	}
	for n := 0; n < 50 && slices.ContainsFunc(all, (*exchange).waits); n++ {
		v.Pass(20 * time.Millisecond)
	}
	for _, x := range all {
		a := v.finish(x)
		a.Headers = nil
		outcomes = append(outcomes, a.String())
	}
	return outcomes
}

// Hold implements scenario.World.
func (v *virtualWorld) Hold(_ *testing.T, r *scenario.Request) (a scenario.Answer, held bool) {
	x := v.open(r)
	v.settle()
	if x.RequestPaused() || x.Local != nil {
		return v.finish(x), false
	}
	v.held = append(v.held, x)
	return a, true
}

// Release implements scenario.World.
func (v *virtualWorld) Release(*testing.T) scenario.Answer {
	x := v.held[0]
	v.held = v.held[1:]
	return v.finish(x)
}

// Upstream implements scenario.World.
func (v *virtualWorld) Upstream(a scenario.Answer) { v.upstream = a }

// Redis implements scenario.World.
func (v *virtualWorld) Redis(t *testing.T, words []string) string {
	t.Helper()
	now := v.now().UnixMicro()
	switch {
	case words[0] == "KEYS":
		return strings.Join(v.keys(""), "\n")
	case words[0] == "SET" && len(words) == 3:
		v.Set(words[1], words[2], 0, now)
	case words[0] == "SET" && len(words) == 5 && words[3] == "PX":
		life, err := time.ParseDuration(words[4] + "ms")
		if err != nil {
			t.Fatal(err)
		}
		v.Set(words[1], words[2], life.Microseconds(), now)
	case words[0] == "DEL":
		v.Delete(words[1])
		return "1"
	default:
		t.Fatalf("a Redis in memory does not know %q", words)
	}
	return "OK"
}

// settle brings all replies, unless they are late.
func (v *virtualWorld) settle() {
	if v.every == 0 {
		v.twinRedis.settle()
	}
}

// Pass implements scenario.Virtual.
func (v *virtualWorld) Pass(d time.Duration) {
	c := v.worker.clock
	for end := c.now.Add(d); c.now.Before(end); {
		if v.every == 0 {
			v.wait(d)
			return
		}
		v.wait(time.Millisecond)
		if c.now.Sub(v.answered) >= v.every {
			v.answered = c.now
			v.reply()
		}
	}
}

// Late implements scenario.Virtual.
func (v *virtualWorld) Late(every time.Duration) { v.every, v.answered = every, v.worker.clock.now }

// Fault implements scenario.Virtual.
func (v *virtualWorld) Fault(down bool) {
	if v.Refuse, v.every = 0, 0; down {
		v.Refuse = wasmhost.GRPCUnavailable
		for _, c := range v.Conns {
			if c.Open() {
				c.Close(wasmhost.GRPCUnknown)
			}
		}
	}
}

// Metrics implements scenario.Virtual.
func (v *virtualWorld) Metrics() map[string]int64 {
	v.Pass(1100 * time.Millisecond)
	return v.worker.stats()
}

// Log implements scenario.Virtual.
func (v *virtualWorld) Log() []string { return v.worker.logs() }
