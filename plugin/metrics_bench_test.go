package main

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// benchEnvoy is an Envoy that costs next to nothing, with a Redis behind it that
// answers in the same moment. Calls that the benchmarks do not need panic.
type benchEnvoy struct {
	envoy

	nowMicros int64
	plugin    *plugin
	replies   int // owed
	calls     int // for metrics and for the timer
}

func (e *benchEnvoy) setTickPeriod(_, _ uint32)                       { e.calls++ }
func (e *benchEnvoy) setHeaders(uint32, uint32, [][2]string)          {}
func (e *benchEnvoy) setProperty(uint32, string, string)              {}
func (e *benchEnvoy) resumeRequest(uint32)                            {}
func (e *benchEnvoy) unixMicros() int64                               { return 1_700_000_000_000_000 + e.nowMicros }
func (e *benchEnvoy) steadyMicros() int64                             { return e.nowMicros }
func (e *benchEnvoy) grpcOpen(uint32, []byte) (token, status uint32)  { return 1, statusOK }
func (e *benchEnvoy) grpcSend(uint32, uint32, []byte) (status uint32) { e.replies++; return statusOK }
func (e *benchEnvoy) defineMetric(uint32, string) (id uint32)         { return 1 }
func (e *benchEnvoy) incrementMetric(uint32, int64)                   { e.calls++ }

func (e *benchEnvoy) getSharedData(string) (value []byte, cas, status uint32) {
	return nil, 0, statusNotFound
}

func (e *benchEnvoy) Uint64() uint64                                       { return rand.Uint64() }
func (e *benchEnvoy) foreign(uint32, string, []byte) ([]byte, bool)        { return nil, true }
func (e *benchEnvoy) setSharedData(string, []byte, uint32) (status uint32) { return statusOK }
func (e *benchEnvoy) logLine(logLevel, string)                             {}
func (e *benchEnvoy) recordMetric(uint32, uint64)                          { e.calls++ }
func (e *benchEnvoy) header(_, _ uint32, name string) (string, bool) {
	switch name {
	case ":status":
		return "200", true
	case ":path":
		return "/api/orders", true
	}
	return "", false
}

func (e *benchEnvoy) requestHeaders(uint32) []byte { return benchHeaders }

var benchHeaders = appendHeaders(nil, [][2]string{{":path", "/api/orders"}, {"x-api-key", "0123456789abcdef"}})

// newBenchLimiter loads a rule with two limits.
func newBenchLimiter(tb testing.TB) *benchEnvoy {
	e := &benchEnvoy{}
	cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [
		{"name": "per-key", "match": {"path": {"prefix": "/api/"}}, "key": [{"header": "x-api-key"}], "limits": [
			{"algorithm": "gcra", "limit": 10, "window": "1s", "burst": 20},
			{"algorithm": "sliding_window_counter", "limit": 1000, "window": "1h"}]}]}`))
	if err != nil {
		tb.Fatal(err)
	}
	e.plugin = &plugin{vm: newVM(host{e}), id: 1}
	if e.plugin.limiter, err = newLimiter(e.plugin.vm, 1, cfg, &expressions{}); err != nil {
		tb.Fatal(err)
	}
	e.plugin.limiter.conn.Try()
	e.plugin.tick()
	e.plugin.limiter.received(1, []byte("$0\r\n\r\n$0\r\n\r\n+OK\r\n"))
	e.replies = 0
	return e
}

// benchReply admits: Redis' time, then remaining, reset, retry and reset before of both limits.
var benchReply = []byte("*9\r\n:1700000000000000\r\n:19\r\n:100000\r\n:0\r\n:0\r\n:999\r\n:3600000000\r\n:0\r\n:0\r\n")

// request is one that is admitted, from its headers to its end, 20 us after the
// one before it.
func (e *benchEnvoy) request() {
	e.nowMicros += 20
	l := e.plugin.limiter
	if l.tickMillis > 0 && e.nowMicros >= l.tickAtMicros {
		e.plugin.tick()
	}
	r := l.begin(2)
	r.OnHttpRequestHeaders(0, true)
	for ; e.replies > 0; e.replies-- {
		l.received(1, benchReply)
	}
	r.OnHttpResponseHeaders(0, true)
	r.OnHttpStreamDone()
}

// BenchmarkRequest is the plugin's own part of a request, and how many calls metrics
// and timer make for each.
func BenchmarkRequest(b *testing.B) {
	e := newBenchLimiter(b)
	b.ReportAllocs()
	for b.Loop() {
		e.request()
	}
	b.ReportMetric(float64(e.calls)/float64(b.N), "calls/op")
}

// A request allocates nothing, with metrics and with flushes.
func TestRequestAllocations(t *testing.T) {
	e := newBenchLimiter(t)
	thousand := func() {
		for range 1000 {
			e.request()
		}
		e.nowMicros += metric.FlushMicros
	}
	thousand()
	calls := e.calls
	if got := testing.AllocsPerRun(20, thousand); got != 0 {
		t.Errorf("1000 requests make %v allocations, want none", got)
	}
	if e.calls == calls {
		t.Error("nothing was flushed")
	}
}
