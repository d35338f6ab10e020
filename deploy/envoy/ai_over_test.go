package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestAISmallModel: the page's route leads who has used up its tokens to a smaller model, which
// costs nothing of them.
func TestAISmallModel(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/ai.md")
	part := regexp.MustCompile("(?s)A cheaper model in place of a 429.*?(\"over\": .*?)`\\s+in\\s.*?```yaml\n(.*?)```").
		FindStringSubmatch(string(page))
	if part == nil {
		t.Fatal("docs/ai.md has no route to a cheaper model")
	}
	small := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("x-model-tier"))
	}))
	g := startAIFile(t, func(c *envoyconf.Config) {
		const routes = envoyconf.ConnectionManager + "/route_config/virtual_hosts/all/routes"
		c.Set(routes, append(c.Fragment(part[2]).([]any), c.Get(routes).([]any)...))
		c.Append("static_resources/clusters", c.Fragment("{name: small, type: STATIC}"))
		c.Set("static_resources/clusters/small/load_assignment", map[string]any{
			"cluster_name": "small", "endpoints": c.Endpoints([]string{small.Addr}),
		})
	}, func(plugin string) string { return strings.Replace(plugin, `"settle":`, part[1]+`, "settle":`, 1) })
	for i := range 3 {
		resp, err := g.post(ctx, "key", "/v1/chat/completions", fmt.Sprintf(
			`{"model": "gpt-test", "max_tokens": %d, "messages": [{"role": "user", "content": "worth=100"}]}`,
			map[bool]int{true: 1_000_000, false: 1000}[i == 1],
		))
		testenv.OK(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		testenv.Same(t, "status", resp.StatusCode, http.StatusOK)
		testenv.Same(t, "whether the small model has answered", string(body) == "small", i == 1)
	}
	testenv.Same(t, "requests of the small model", small.Count(), 1)
	g.awaitTokens(t, 200)
}
