package envoy_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// aiGateway is an Envoy with ai.yaml.
type aiGateway struct {
	*gateway

	provider *provider
	upstream *envoytest.Upstream
	client   *redis.Client
	python   *sdk
	lasts    int // requests of awaitSettlements
}

// startAI runs it with replacements in the plugin's configuration.
func startAI(t *testing.T, replacements ...string) *aiGateway {
	t.Helper()
	return startAIEdited(t, strings.NewReplacer(replacements...).Replace)
}

// startAIRule runs it with the members of its rule changed.
func startAIRule(t *testing.T, edit func(rule map[string]any)) *aiGateway {
	t.Helper()
	return startAIEdited(t, func(plugin string) string {
		var config map[string]any
		testenv.OK(t, json.Unmarshal([]byte(plugin), &config))
		edit(config["rules"].([]any)[0].(map[string]any))
		text, err := json.Marshal(config)
		testenv.OK(t, err)
		return string(text)
	})
}

// minutes are the windows of ai.yaml. No test may take so long that one of them ends.
var minutes = regexp.MustCompile(`"window": ?"1m"`)

// startAIEdited runs it with the plugin's configuration changed.
func startAIEdited(t *testing.T, edit func(plugin string) string) *aiGateway {
	t.Helper()
	return startAIFile(t, nil, edit)
}

// startAIFile runs it with the file changed, and the plugin's configuration.
func startAIFile(t *testing.T, envoy func(*envoyconf.Config), edit func(plugin string) string) *aiGateway {
	t.Helper()
	return startAIWorkers(t, 2, envoy, edit)
}

// startAIInOrder runs it with one worker, which tells Redis of settlements in the order of the
// requests.
func startAIInOrder(t *testing.T) *aiGateway {
	t.Helper()
	return startAIWorkers(t, 1, nil, func(plugin string) string { return plugin })
}

func startAIWorkers(
	t *testing.T, workers int, envoy func(*envoyconf.Config), edit func(plugin string) string,
) *aiGateway {
	t.Helper()
	p, server := &provider{}, redistest.Start(t)
	upstream := envoytest.NewUpstream(t, p)
	g := startWorkers(t, workers, "ai.yaml", nil, func(c *envoyconf.Config) {
		if envoy != nil {
			envoy(c)
		}
		c.SetUpstream(upstream.Addr)
		c.SetRedis(server.Addr)
		const text = envoyconf.Limiter + "/configuration/value"
		plugin := edit(c.Get(text).(string))
		c.SetPlugin(minutes.ReplaceAllString(plugin, `"window": "366d"`))
	})
	return &aiGateway{gateway: g, provider: p, upstream: upstream, client: server.Client()}
}

// sdkResult is the output of client.py.
type sdkResult struct {
	Text       string
	Tokens     int64
	Error      string
	Status     int
	Message    string
	RetryAfter string `json:"retry_after"`
	Waited     float64
	Admitted   int64
}

// sdk is a client.py that runs.
type sdk struct {
	to     io.Writer
	from   *bufio.Reader
	stderr *strings.Builder
	end    func() // after which stderr is complete
}

// startSDK runs client.py until the test ends.
func (g *aiGateway) startSDK(t *testing.T) *sdk {
	t.Helper()
	cmd := exec.Command(testenv.Tool(t, "sdk-python"), "testdata/client.py", g.url)
	s := &sdk{stderr: new(strings.Builder)}
	cmd.Stderr = s.stderr
	to, err := cmd.StdinPipe()
	testenv.OK(t, err)
	from, err := cmd.StdoutPipe()
	testenv.OK(t, err)
	s.to, s.from = to, bufio.NewReader(from)
	testenv.OK(t, cmd.Start())
	s.end = sync.OnceFunc(func() {
		to.Close()
		_ = cmd.Wait()
	})
	t.Cleanup(s.end)
	return s
}

// sdk has client.py do something.
func (g *aiGateway) sdk(t *testing.T, action, key string, number int) (r sdkResult) {
	t.Helper()
	if g.python == nil {
		g.python = g.startSDK(t)
	}
	if _, err := fmt.Fprintln(g.python.to, action, key, number); err != nil {
		t.Fatal(err)
	}
	out, err := g.python.from.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		g.python.end()
		t.Fatalf("%s: %v\n%s%s", action, err, out, g.python.stderr.String())
	}
	return r
}

// tokens is Redis' count over all keys.
func (g *aiGateway) tokens(t *testing.T) (sum int64) {
	t.Helper()
	for _, n := range g.tokensByKey(t) {
		sum += n
	}
	return sum
}

// tokensByKey is Redis' count of each key: the numbers behind the start of the
// newest sub-window (algo/sliding_window_counter.lua).
func (g *aiGateway) tokensByKey(t *testing.T) (all []int64) {
	t.Helper()
	keys, err := g.client.Keys(ctx, "rl:{llm|*:sliding_window_counter:*").Result()
	testenv.OK(t, err)
	for _, key := range keys {
		state, err := g.client.Get(ctx, key).Bytes()
		testenv.OK(t, err)
		sum := int64(0)
		for counts := state[8:]; len(counts) >= 4; counts = counts[4:] {
			sum += int64(binary.LittleEndian.Uint32(counts))
		}
		all = append(all, sum)
	}
	return all
}

// awaitTokens waits until the settlements have made them so many.
func (g *aiGateway) awaitTokens(t *testing.T, want int64) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		if got := g.tokens(t); got != want {
			return fmt.Errorf("Redis has %d tokens, want %d", got, want)
		}
		return nil
	})
}

// limit is how many tokens a minute the file admits.
const limit = 100_000

// lastWorth is the tokens of each last request of awaitSettlements.
const lastWorth = 777

// awaitSettlements returns when all settlements of requests that have ended are in Redis, which is
// when that of a last one is. The gateway was started by startAIInOrder.
func (g *aiGateway) awaitSettlements(t *testing.T) {
	t.Helper()
	g.awaitOver(t)
	g.lasts++
	g.answered(t, fmt.Sprint("last-", g.lasts), "/v1/chat/completions",
		fmt.Sprintf(`{"model": "m", "max_tokens": 1000, "messages": [{"role": "user", "content": "worth=%d"}]}`, lastWorth))
	testenv.Wait(t, patience, func() error {
		settled := 0
		for _, tokens := range g.tokensByKey(t) {
			if tokens == lastWorth {
				settled++
			}
		}
		if settled != g.lasts {
			return fmt.Errorf("%d last requests are settled, want %d", settled, g.lasts)
		}
		return nil
	})
}

// awaitOver returns when no request is under way in Envoy.
func (g *aiGateway) awaitOver(t *testing.T) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		resp, err := http.Get("http://" + g.admin + "/stats?filter=http.limited.downstream_rq_active")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && strings.TrimSpace(string(text)) != "http.limited.downstream_rq_active: 0" {
			err = fmt.Errorf("requests are under way: %s", text)
		}
		return err
	})
}

// TestAI: what the official SDKs of OpenAI and Anthropic make of it, as streams and
// not.
func TestAI(t *testing.T) {
	t.Parallel()
	g := startAIInOrder(t)
	sum := int64(0)
	for _, tc := range []struct {
		action string
		worth  int64
	}{
		{"openai_plain", 321},
		{"openai_stream", 432},
		{"openai_responses", 210},
		{"anthropic_plain", 321},
		{"anthropic_stream", 432},
	} {
		r := g.sdk(t, tc.action, "key", 0)
		if r.Text != "hello world" || r.Tokens != tc.worth {
			t.Errorf("%s: %+v, want %d tokens", tc.action, r, tc.worth)
		}
		sum += tc.worth
		g.awaitTokens(t, sum)
	}
	if r := g.sdk(t, "openai_failed", "key", 0); r.Error != "InternalServerError" {
		t.Errorf("an error of the provider's: %+v", r)
	}
	g.awaitTokens(t, sum) // it is free

	// A request of unknown worth is worth the limit.
	for _, action := range []string{"openai_abort", "openai_silent"} {
		g.sdk(t, action, action, 0)
		g.awaitSettlements(t)
		testenv.Same(t, action+": tokens", g.tokens(t)-sum, limit+lastWorth)
		sum = g.tokens(t)
	}
	r := g.sdk(t, "openai_unasked", "key", 0)
	testenv.Same(t, "a stream without usage: the error", r.Error, "BadRequestError")
	testenv.Same(t, "its message", strings.Contains(r.Message, "Streams need stream_options.include_usage."), true)

	asked := g.provider.asked.Load()
	resp, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(`{"messages": [`))
	testenv.OK(t, err)
	resp.Body.Close()
	testenv.Same(t, "malformed: status", resp.StatusCode, http.StatusBadRequest)
	testenv.Same(t, "malformed: requests of the provider", g.provider.asked.Load(), asked)
	g.awaitTokens(t, sum)
}

// TestAICrowd: 40 clients at once never get more than the limit, as each stays within
// its reservation, and Redis has what they used, to the token.
func TestAICrowd(t *testing.T) {
	t.Parallel()
	const limit, clients = 10_000, 40
	g := startAI(t, `"limit": 100000`, fmt.Sprintf(`"limit": %d`, limit),
		`"default": 100000`, fmt.Sprintf(`"default": %d`, limit))
	r := g.sdk(t, "crowd", "key", clients)
	t.Logf("%d of %d admitted, %d tokens", r.Admitted, clients, r.Tokens)
	if r.Admitted < limit/1200 || r.Admitted == clients {
		t.Errorf("%d of %d admitted", r.Admitted, clients)
	}
	if r.Tokens > limit {
		t.Errorf("%d tokens, more than %d", r.Tokens, limit)
	}
	testenv.Same(t, "tokens of the provider", g.provider.tokens.Load(), r.Tokens)
	g.awaitTokens(t, r.Tokens)
}

// TestAILimited: the 429 is one that the SDKs know, report, and retry when it says.
func TestAILimited(t *testing.T) {
	t.Parallel()
	g := startAI(t, `"limit": 100000, "window": "1m"`, `"limit": 3000, "window": "6s"`,
		`"default": 100000`, `"default": 3000`)
	for _, action := range []string{"openai_limited", "anthropic_limited"} {
		r := g.sdk(t, action, action, 900)
		seconds, err := strconv.Atoi(r.RetryAfter)
		testenv.SameError(t, action+": its Retry-After", err, nil)
		testenv.Within(t, action+": its Retry-After", seconds, 1, 12)
		testenv.Same(t, action+": the error", r.Error, "RateLimitError")
		testenv.Same(t, action+": the status", r.Status, http.StatusTooManyRequests)
		if !strings.Contains(r.Message, "Rate limit reached") {
			t.Errorf("%s: message %q", action, r.Message)
		}
		if r.Waited < float64(seconds)-1 || r.Waited > 40 {
			t.Errorf("%s: retried after %.1f s, told %d s", action, r.Waited, seconds)
		}
	}
}

// TestAIVariants: each model has a limit of its own, as docs/ai.md says.
func TestAIVariants(t *testing.T) {
	t.Parallel()
	g := startAIRule(t, func(rule map[string]any) {
		rule["key"] = append(rule["key"].([]any),
			map[string]any{"expr": "metadata.typed_filter_metadata['envoy.ai.request_info'].model"})
	})
	g.answered(t, "key", "/v1/chat/completions",
		`{"model": "gpt-test", "max_tokens": 1000, "messages": [{"role": "user", "content": "worth=321"}]}`)
	g.awaitTokens(t, 321)
	keys, err := g.client.Keys(ctx, "rl:{llm|*|gpt-test}:sliding_window_counter:*").Result()
	if err != nil || len(keys) != 1 {
		t.Errorf("keys %q, %v", keys, err)
	}
}

// TestAIPage: docs/ai.md shows the rule of ai.yaml.
func TestAIPage(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/ai.md")
	_, example, _ := strings.Cut(string(page), "```json rule\n")
	example, _, _ = strings.Cut(example, "```")
	text := testenv.Read(t, "ai.yaml")
	c, err := envoyconf.Parse(text)
	testenv.OK(t, err)
	var shown any
	var shipped struct{ Rules []any }
	testenv.OK(t, json.Unmarshal([]byte(example), &shown))
	testenv.OK(t, json.Unmarshal([]byte(c.Get(envoyconf.Limiter+"/configuration/value").(string)), &shipped))
	if !reflect.DeepEqual([]any{shown}, shipped.Rules) {
		t.Errorf("docs/ai.md shows\n%v\nai.yaml has\n%v", shown, shipped.Rules)
	}
}

// TestAIKeys: a client is limited by the key that the provider reads, whatever it writes
// into the header that it does not read, and however it writes the first. docs/ai.md
// has the second way.
func TestAIKeys(t *testing.T) {
	t.Parallel()
	const removed = envoyconf.ConnectionManager + "/http_filters/0/typed_config/mutations/request_mutations/0/remove"
	for _, tc := range []struct {
		name, key, other string
		spellings        []string
		rule             []string
	}{
		{
			name: "bearer", key: "authorization", other: "x-api-key",
			spellings: []string{"Bearer k", "bearer k", "BEARER   k", "bEARER k", "Bearer  k"},
		},
		{
			name: "x-api-key", key: "x-api-key", other: "authorization",
			spellings: []string{"k", "k", "k", "k", "k"},
			rule:      []string{`{"bearer": true,`, `{"header": "x-api-key",`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fewer := append([]string{`"limit": 60`, `"limit": 3`}, tc.rule...)
			g := startAIFile(t, func(c *envoyconf.Config) { c.Set(removed, tc.other) }, strings.NewReplacer(fewer...).Replace)
			for i, want := range []int{200, 200, 200, 429, 429} {
				req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions",
					strings.NewReader(`{"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "worth=50"}]}`))
				testenv.OK(t, err)
				req.Header.Set("content-type", "application/json")
				req.Header.Set(tc.other, fmt.Sprintf("Bearer made-up-%d", i))
				req.Header.Set(tc.key, tc.spellings[i])
				resp, err := http.DefaultClient.Do(req)
				testenv.OK(t, err)
				resp.Body.Close()
				testenv.Same(t, tc.spellings[i]+": status", resp.StatusCode, want)
			}
			for _, r := range g.upstream.Requests() {
				testenv.Same(t, "what the provider gets of "+tc.other, r.Header.Get(tc.other), "")
			}
		})
	}
}
