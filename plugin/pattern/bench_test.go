package pattern

import (
	"regexp"
	"strings"
	"testing"
)

const (
	crawlers  = `(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy`
	userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
)

func BenchmarkMatch(b *testing.B) {
	b.Run("pattern", func(b *testing.B) {
		p := mustCompile(b, crawlers)
		var m Machine
		for b.Loop() {
			m.Match(p, userAgent, plenty)
		}
	})
	b.Run("regexp", func(b *testing.B) {
		p := regexp.MustCompile(crawlers)
		for b.Loop() {
			p.MatchString(userAgent)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	for _, bb := range []struct{ name, expression string }{
		{"common", crawlers},
		{"path", `^/v[0-9]+/(users|orders|carts)/[^/]+$`},
		{"many-states", `(a|b)*a(a|b){20}c`},
		{"large", `[a-z]{900}`},
		{"optional", strings.Repeat("a?", 100) + `b\pL{30}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				mustCompile(b, bb.expression)
			}
		})
	}
}
