package envoy_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// aiMoney: the cookbook's budget reserves what a request may cost, and settles what it did cost, by
// the prices of its model. Cached tokens cost less.
var aiMoney = aiTest{
	name: "money", changes: []string{`"limit": 50000000`, `"limit": 30000`, `"default": 1000000`, `"default": 30000`},
	edit: func(t *testing.T, c *envoyconf.Config, _ string) {
		recipe := regexp.MustCompile("(?s)\n## LLM budgets in money\n.*?```json\n(.*?)```").
			FindStringSubmatch(string(testenv.File(t, "docs/cookbook.md")))
		if recipe == nil {
			t.Fatal("the cookbook has no budgets in money")
		}
		c.SetPlugin(strings.Replace(recipe[1], asShipped, patient, 1))
	},
	play: func(t *testing.T, g *aiGateway) {
		const mini = 1000*0.4 - 400*0.3 + 100*1.6
		// Envoy adds both to the input: what Anthropic has read from a cache, which costs less, and written.
		const cached = (100+1000+10)*3 - 1000*27/10 + 50*15
		sum := 0
		for _, tc := range []struct {
			action string
			price  int
		}{
			{"openai_plain", 20*3 + 301*15},
			{"openai_mini", mini},
			{"anthropic_stream", 20*3 + 412*15},
			{"anthropic_cached", cached},
			{"anthropic_cached_stream", cached},
			{"openai_failed", 0},
			{"openai_plain", 20*3 + 301*15},
		} {
			r := g.sdk(t, tc.action, "key", 0)
			testenv.Same(t, tc.action+": whether it was answered", r.Tokens > 0, tc.price > 0)
			sum += tc.price
			g.awaitSum(t, sum)
		}
		// 1000 tokens of output may cost $0.015, and half of that is left.
		r := g.sdk(t, "openai_refused", "key", 0)
		testenv.Same(t, "the status", r.Status, http.StatusPaymentRequired)
		testenv.Same(t, "the error", r.Error, "APIStatusError")
		testenv.Same(t, "the message: "+r.Message, strings.Contains(r.Message, "The budget of this month is used up."), true)
		g.sdk(t, "openai_mini", "key", 0)
		g.awaitSum(t, sum+mini)
	},
}
