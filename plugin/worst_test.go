package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
	"github.com/sluiceproxy/sluice/internal/worstcase"
)

// BenchmarkWorstCases is how long the worst requests keep a worker busy in the
// built plugin, on wazero, which takes two to four times as long as Envoy's V8.
func BenchmarkWorstCases(b *testing.B) {
	for _, c := range worstcase.Cases {
		b.Run(strings.ReplaceAll(c.Name, " ", "-"), func(b *testing.B) {
			h := wasmhost.Start(b, wasmhost.Options{Wasm: testenv.Wasm(b)})
			p, err := h.StartPlugin(c.Config())
			if err != nil {
				b.Fatal(err, h.Logs)
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				s := p.NewStream()
				s.RequestHeaders(c.Headers, true)
				s.End()
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*9/10].Microseconds())/1000, "ms-p90")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
		})
	}
}
