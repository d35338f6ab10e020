package envoy_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// aiSmallModel: the page's route leads who has used up its tokens to a smaller model, which
// costs nothing of them.
var aiSmallModel = aiTest{
	name: "small model",
	edit: func(t *testing.T, c *envoyconf.Config, _ string) {
		part := regexp.MustCompile("(?s)A cheaper model in place of a 429.*?(\"over\": .*?)`\\s+in\\s.*?```yaml\n(.*?)```").
			FindStringSubmatch(string(testenv.File(t, "docs/ai.md")))
		if part == nil {
			t.Fatal("docs/ai.md has no route to a cheaper model")
		}
		const routes = envoyconf.ConnectionManager + "/route_config/virtual_hosts/all/routes"
		small := strings.Replace(part[2], "cluster: small", "cluster: upstream", 1)
		c.Set(routes, append(c.Fragment(small).([]any), c.Get(routes).([]any)...))
		c.SetPlugin(strings.Replace(c.Get(pluginText).(string), `"settle":`, part[1]+`, "settle":`, 1))
	},
	play: func(t *testing.T, g *aiGateway) {
		for i, most := range []int{1000, 1_000_000, 1000} {
			status, _ := g.ask(t, "key", "/v1/chat/completions", fmt.Sprintf(
				`{"model": "gpt-test", "max_tokens": %d, "messages": [{"role": "user", "content": "worth=100"}]}`, most,
			))
			testenv.Same(t, "status", status, http.StatusOK)
			tier := g.upstream.Requests()[i].Header.Get("x-model-tier")
			testenv.Same(t, "the model's tier", tier, []string{"", "small", ""}[i])
		}
		g.awaitSum(t, 200)
	},
}
