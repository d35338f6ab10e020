package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// mcpFilters puts the filters of a recipe before Sluice, but for the variant "unread".
func mcpFilters(heading string) func(t *testing.T, c *envoyconf.Config, variant string) {
	return func(t *testing.T, c *envoyconf.Config, variant string) {
		t.Helper()
		filters := blocks(t, "docs/cookbook.md", heading, "yaml")[0]
		if isEnvoy136(t) {
			filters = regexp.MustCompile("(?m)^ *(max_request_body_size|traffic_mode).*$").ReplaceAllString(filters, "")
		}
		if variant != "unread" {
			putFirst(c, c.Fragment(filters))
		}
	}
}

// isEnvoy136 reports whether the tests run on the oldest Envoy, where some things differ.
func isEnvoy136(t *testing.T) bool {
	t.Helper()
	version, err := exec.Command(testenv.Tool(t, "envoy"), "--version").Output()
	testenv.OK(t, err)
	return strings.Contains(string(version), "/1.36.")
}

// mcpCall sends a request as agents do, of one of them unless a header names another.
func mcpCall(t *testing.T, s *setting, method, tool string, headers ...string) reply {
	t.Helper()
	return get(t, s.URL+"/mcp", append([]string{
		":method: POST", "content-type: application/json", "accept: application/json, text/event-stream",
		fmt.Sprintf(`:body: {"jsonrpc": "2.0", "id": 1, "method": %q, "params": {"name": %q}}`, method, tool),
	}, headers...)...)
}

const agent = "authorization: Bearer a"

// cookbookMCP: Envoy's own filter reads the tool's name.
var cookbookMCP = plain{
	name:   "cookbook MCP",
	config: "recipe MCP tools",
	stores: embedded,
	edit:   mcpFilters("MCP tools"),
	play: func(t *testing.T, s *setting) {
		for i, tc := range []struct{ method, tool, remaining string }{
			{"tools/call", "search", "29"},
			{"tools/call", "search", "28"},
			{"tools/call", "fetch", "29"},
			{"tools/list", "", ""},
		} {
			r := mcpCall(t, s, tc.method, tc.tool, agent)
			testenv.Same(t, fmt.Sprintf("status of call %d", i), r.status, http.StatusOK)
			expectHeaders(t, r, map[string]string{"x-ratelimit-remaining": tc.remaining})
		}
		listen := get(t, s.URL+"/mcp", agent, "accept: text/event-stream")
		testenv.Same(t, "status of one who listens", listen.status, http.StatusOK)
		expectHeaders(t, listen, map[string]string{"x-ratelimit-limit": "30", "x-ratelimit-remaining": "29"})
	},
}

// mcpEvasions are calls of a tool that the filter does not read by default, or not at all, and that
// servers answer. NUMBER is another one in each request.
var mcpEvasions = []struct{ name, authorization, contentType, body string }{
	{"plain", "Bearer a", "application/json", mcpBody},
	{"no token", "", "application/json", mcpBody},
	{"padded arguments", "Bearer b", "application/json", `{"params": {"arguments": {"x": "` + padding +
		`"}, "name": "search"}, "jsonrpc": "2.0", "id": NUMBER, "method": "tools/call"}`},
	{"blanks in front", "Bearer c", "application/json", strings.ReplaceAll(padding, "x", " ") + mcpBody},
	{"a batch", "Bearer d", "application/json", "[" + mcpBody + "]"},
	{"a type in capitals", "Bearer e", "application/JSON", mcpBody},
	{"plain text", "Bearer f", "text/plain", mcpBody},
	{"no version", "Bearer g", "application/json", strings.Replace(mcpBody, `"jsonrpc": "2.0", `, "", 1)},
	{"a byte order mark", "Bearer h", "application/json", "\xef\xbb\xbf" + mcpBody},
	{
		"a member twice", "Bearer i", "application/json",
		strings.Replace(mcpBody, `{"name"`, `{"name": "NUMBER", "name"`, 1),
	},
	{"no name", "Bearer j", "application/json", `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}`},
}

const mcpBody = `{"jsonrpc": "2.0", "id": NUMBER, "method": "tools/call", "params": {"name": "search"}}`

var padding = strings.Repeat("x", 20_000)

// cookbookMCPEvasions: however an agent writes its call, it gets no more than the limit, with the filter
// and, where only the path tells, without it.
var cookbookMCPEvasions = plain{
	name: "cookbook MCP evasions",
	config: `recipe MCP tools
"limit": 30, "window": "1m"}], -> "limit": 5, "window": "1d"}],
"limit": 30, "window": "1m"}]} -> "limit": 5, "window": "1d"}]}
`,
	variants: []string{"read", "unread"},
	edit:     mcpFilters("MCP tools"),
	play: func(t *testing.T, s *setting) {
		const limit = 5
		for _, tc := range mcpEvasions {
			served := 0
			for i := range 2 * limit {
				headers := []string{
					":method: POST", ":body: " + strings.ReplaceAll(tc.body, "NUMBER", strconv.Itoa(i)),
					"content-type: " + tc.contentType, "accept: application/json, text/event-stream",
				}
				if tc.authorization != "" {
					headers = append(headers, "authorization: "+tc.authorization)
				}
				if get(t, s.URL+"/mcp", headers...).status == http.StatusOK {
					served++
				}
			}
			testenv.Within(t, tc.name+": requests served", served, 0, limit)
		}
	},
}

var cookbookMCPEvasionsOfSettled = plain{
	name: "cookbook MCP evasions of settled calls",
	config: `recipe MCP tools that worked
"limit": 30, "window": "1m", "sub_windows": 6}], -> "limit": 5, "window": "1d", "sub_windows": 6}],
"limit": 30, "window": "1m", "sub_windows": 6}]} -> "limit": 5, "window": "1d", "sub_windows": 6}]}
`,
	variants: cookbookMCPEvasions.variants,
	edit:     mcpFilters("MCP tools that worked"),
	play:     cookbookMCPEvasions.play,
}

// toolAnswers are the answers of an MCP server, by the tool's name, and whether the call
// counts.
var toolAnswers = map[string]struct {
	status      int
	contentType string
	body        string
	counts      bool
}{
	"works": {
		200, "application/json", `{"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": false}}`,
		true,
	},
	"works-well": {200, "application/json", `{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}`, true},
	"fails": {
		200, "application/json", `{"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": true}}`,
		false,
	},
	"unknown": {
		200, "application/json",
		`{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no such tool"}}`, false,
	},
	"breaks":  {500, "application/json", `{"error": "oops"}`, false},
	"garbles": {200, "application/json", `{"jsonrpc`, true},
	"streams": {
		200, "text/event-stream", "data: {\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {\"isError\": true}}\n\n",
		true,
	},
}

// cookbookMCPSettled: the tool's name is the key, and the answer settles the charge.
var cookbookMCPSettled = plain{
	name:   "cookbook MCP settled",
	config: "recipe MCP tools that worked",
	stores: bothStores,
	worker: true,
	edit:   mcpFilters("MCP tools that worked"),
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := toolAnswers[r.Header.Get("x-tool")]
			w.Header().Set("content-type", a.contentType)
			w.WriteHeader(a.status)
			_, _ = io.WriteString(w, a.body)
		}))
		for range 3 { // Redis learns the scripts, so that nothing is told twice from then on
			mcpCall(t, s, "tools/call", "breaks", "authorization: Bearer other", "x-tool: breaks")
			awaitActive(t, s, 0)
		}
		for tool, a := range toolAnswers {
			t.Run(tool, func(t *testing.T) {
				for i, remaining := range []string{"29", map[bool]string{true: "28", false: "29"}[a.counts]} {
					r := mcpCall(t, s, "tools/call", tool, agent, "x-tool: "+tool)
					testenv.Same(t, fmt.Sprintf("status of call %d", i), r.status, a.status)
					expectHeaders(t, r, map[string]string{"x-ratelimit-limit": "30", "x-ratelimit-remaining": remaining})
					awaitActive(t, s, 0)
				}
			})
		}
	},
}
