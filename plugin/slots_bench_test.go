package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// BenchmarkRenewal is how long the ticks keep a worker busy that renew 10,000 slots, all
// of them in a third of their ttl: in the built plugin, on wazero, which takes two to four
// times as long as Envoy's V8.
func BenchmarkRenewal(b *testing.B) {
	const held = 10_000
	for _, identities := range []int{1, held} {
		b.Run(fmt.Sprintf("%d-identities", identities), func(b *testing.B) {
			c, m := &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, &wasmhost.Memory{}
			h := wasmhost.Start(b, wasmhost.Options{
				Wasm: testenv.Wasm(b), Now: c.read,
				Clusters: map[string]wasmhost.Cluster{string(grpcService("redis")): m},
			})
			p, err := h.StartPlugin(withRedis(`{"name": "a", "key": [{"header": "x-client"}],
				"limits": [{"algorithm": "concurrency", "limit": 1000000, "ttl": "30s"}]}`))
			if err != nil {
				b.Fatal(err, h.Logs)
			}
			p.NewStream()
			p.Tick()
			replyToTrial(m.Last())
			for n := range held {
				headers := append(wasmhost.Request("GET", "/"), [2]string{"x-client", fmt.Sprint(n % identities)})
				p.NewStream().RequestHeaders(headers, true)
				m.Last().Take()
				m.Last().Reply(fmt.Sprintf("*3\r\n:%d\r\n:9\r\n:0\r\n", c.now.UnixMicro()))
			}
			var took []time.Duration
			for b.Loop() {
				for end := c.now.Add(10 * time.Second); c.now.Before(end); {
					c.advance(p.TickPeriod())
					began := time.Now()
					p.Tick()
					if commands := bytes.Count(m.Last().Take(), []byte("\r\nEVAL")); commands > 0 {
						took = append(took, time.Since(began))
						m.Last().Reply(strings.Repeat(":0\r\n", commands))
					}
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-longest")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
			b.ReportMetric(float64(len(took))/float64(b.N), "ticks")
		})
	}
}
