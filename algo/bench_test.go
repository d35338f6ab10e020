package algo

import (
	"fmt"
	"testing"
)

func BenchmarkDecide(b *testing.B) {
	for i, l := range everyLimit {
		l.Units = MaxUnits
		if l.Algorithm == SlidingWindowLog {
			l.Units, l.WindowMicros = 100, 1000
		}
		b.Run(fmt.Sprintf("%d-%s", i, l.Algorithm), func(b *testing.B) {
			p, states, out := mustPlan(b, l), make([]State, 1), make([]Decision, 1)
			now := int64(epoch)
			b.ReportAllocs()
			for b.Loop() {
				now += 50
				decide(p, states, now, 1, out)
			}
		})
	}
}

func BenchmarkParseReply(b *testing.B) {
	p := mustPlan(b, replyLimits...)
	values, out := []int64{1.7e15, 19, 1e5, 0, 5e4, 2e5, 99, 59e6, 0, 58e6}, make([]Decision, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := p.ParseReply(values, out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewPolicy(b *testing.B) {
	for b.Loop() {
		mustPlan(b, everyLimit...)
	}
}
