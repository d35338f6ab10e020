package envoy_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// aiTest is a test of ai.yaml. All share one Envoy, one Redis and one client.py.
type aiTest struct {
	name     string
	variants []string // it is played for each; once, for "", unless set
	changes  []string // of the plugin's configuration: old and new texts
	// edit changes the listener "limited", of which the test gets a copy.
	edit func(t *testing.T, c *envoyconf.Config, variant string)
	play func(t *testing.T, g *aiGateway)
}

var aiTests = []aiTest{
	aiAbsurdReservation, aiAbsurdUsage, aiCrowd, aiCrowdOverTime, aiGreed, aiKeys, aiLeavers, aiLimited, aiMoney,
	aiOtherRequests, aiSDKs, aiSmallModel, aiVariants,
}

// aiGateway is what a test has of its own: a listener, a provider, and a prefix in Redis.
type aiGateway struct {
	name, variant string
	url           string
	provider      *provider
	upstream      *envoytest.Upstream
	client        *redis.Client
	python        string // URL of client.py
}

// pluginText is where ai.yaml has the plugin's configuration.
const pluginText = envoyconf.Limiter + "/configuration/value"

// minute is the windows of ai.yaml. No test may take so long that one of them ends.
var minute = regexp.MustCompile(`"window": ?"1m"`)

func TestAI(t *testing.T) {
	t.Parallel()
	server, port := redistest.Start(t), testenv.FreePort(t)
	client := testenv.Run(t, nil, testenv.Tool(t, "sdk-python"), "testdata/client.py", fmt.Sprint(port))
	python := fmt.Sprintf("http://127.0.0.1:%d/", port)
	all := map[*aiGateway]aiTest{}
	start(t, "ai.yaml", func(c *envoyconf.Config) {
		c.SetRedis(server.Addr)
		limited := c.Get(envoyconf.Listener)
		for _, test := range aiTests {
			for _, variant := range append(test.variants, "")[:max(1, len(test.variants))] {
				g := &aiGateway{
					name: strings.ReplaceAll(strings.TrimSpace(test.name+" "+variant), " ", "-"), variant: variant,
					provider: &provider{given: map[string]int{}}, client: server.Client(), python: python,
				}
				g.upstream = envoytest.NewUpstream(t, g.provider)
				if test.edit != nil {
					test.edit(t, c, variant)
				}
				plugin := strings.NewReplacer(test.changes...).Replace(c.Get(pluginText).(string))
				plugin = strings.Replace(plugin, patient, fmt.Sprintf(`%s, "key_prefix": %q`, patient, g.name), 1)
				own := testenv.FreePort(t)
				g.url = fmt.Sprintf("http://127.0.0.1:%d", own)
				c.CopyListener(g.name, own, minute.ReplaceAllString(plugin, `"window": "366d"`))
				c.SetListenerUpstream(g.name, g.upstream.Addr)
				c.Set(envoyconf.Listener, limited)
				all[g] = test
			}
		}
	})
	client.Await(patience, func(ctx context.Context) error { return process.AnswersOK(ctx, python+"ready") })
	for g, test := range all {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			test.play(t, g)
		})
	}
}

// sdkResult is an answer of client.py.
type sdkResult struct {
	Text       string
	Tokens     int
	Error      string
	Status     int
	Message    string
	RetryAfter string `json:"retry_after"`
	Waited     float64
	Admitted   int
}

// sdk has client.py do something.
func (g *aiGateway) sdk(t *testing.T, action, key string, number int) (r sdkResult) {
	t.Helper()
	query := url.Values{"url": {g.url}, "key": {key}, "number": {fmt.Sprint(number)}}
	_, text, err := testenv.Send(http.MethodGet, g.python+action+"?"+query.Encode(), "")
	if err == nil {
		err = json.Unmarshal([]byte(text), &r)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", action, err, text)
	}
	return r
}

// ask sends a request as a program does, and returns the answer's status and text, be it cut off.
func (g *aiGateway) ask(t *testing.T, key, path, body string) (status int, text string) {
	t.Helper()
	resp, text, err := testenv.Send(http.MethodPost, g.url+path, body,
		"content-type: application/json", "authorization: Bearer "+key)
	if resp == nil {
		t.Error(err)
		return 0, ""
	}
	return resp.StatusCode, text
}

// charged is what Redis has charged all keys, and each of them: of a window that slides the numbers behind the start
// of its newest part (algo/sliding_window_counter.lua), of a fixed one the lower 31 bits of its number
// (algo/fixed_window.lua).
func (g *aiGateway) charged(t *testing.T) (sum int, all []int) {
	t.Helper()
	keys, err := g.client.Keys(ctx, g.name+":*_window*").Result()
	testenv.OK(t, err)
	for _, key := range keys {
		state, err := g.client.Get(ctx, key).Result()
		testenv.OK(t, err)
		n, err := strconv.Atoi(state)
		if n &= 1<<31 - 1; err != nil {
			n = 0
			for counts := range slices.Chunk([]byte(state[8:]), 4) {
				n += int(binary.LittleEndian.Uint32(counts))
			}
		}
		sum, all = sum+n, append(all, n)
	}
	return sum, all
}

// awaitSum waits until settlements have made what all keys are charged so much.
func (g *aiGateway) awaitSum(t *testing.T, want int) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		if got, _ := g.charged(t); got != want {
			return fmt.Errorf("Redis has %d, want %d", got, want)
		}
		return nil
	})
}

// limit is how many tokens a minute the file admits.
const limit = 100_000

// aiSDKs is what the official SDKs of OpenAI and Anthropic make of it, as streams and
// not.
var aiSDKs = aiTest{name: "SDKs", play: func(t *testing.T, g *aiGateway) {
	sum := 0
	for _, tc := range []struct {
		action string
		worth  int
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
		g.awaitSum(t, sum)
	}
	if r := g.sdk(t, "openai_failed", "key", 0); r.Error != "InternalServerError" {
		t.Errorf("an error of the provider's: %+v", r)
	}
	g.awaitSum(t, sum) // it is free

	// A request of unknown worth is worth the limit.
	for _, action := range []string{"openai_abort", "openai_silent"} {
		g.sdk(t, action, action, 0)
		sum += limit
		g.awaitSum(t, sum)
	}
	r := g.sdk(t, "openai_unasked", "key", 0)
	testenv.Same(t, "a stream without usage: the error", r.Error, "BadRequestError")
	testenv.Same(t, "its message", strings.Contains(r.Message, "Streams need stream_options.include_usage."), true)

	asked := g.upstream.Count()
	status, _ := g.ask(t, "key", "/v1/chat/completions", `{"messages": [`)
	testenv.Same(t, "malformed: status", status, http.StatusBadRequest)
	testenv.Same(t, "malformed: requests of the provider", g.upstream.Count(), asked)
	g.awaitSum(t, sum)
}}

// aiLimited: the 429 is one that the SDKs know, report, and retry when it says.
var aiLimited = aiTest{
	name: "SDKs limited",
	changes: []string{
		`"limit": 100000, "window": "1m"`, `"limit": 3000, "window": "6s"`, `"default": 100000`, `"default": 3000`,
	},
	play: func(t *testing.T, g *aiGateway) {
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
	},
}

// aiVariants: each model has a limit of its own, as docs/ai.md says.
var aiVariants = aiTest{
	name: "variants",
	changes: []string{
		`"default": "none"}]`,
		`"default": "none"}, {"expr": "metadata.typed_filter_metadata['envoy.ai.request_info'].model"}]`,
	},
	play: func(t *testing.T, g *aiGateway) {
		g.ask(t, "key", "/v1/chat/completions",
			`{"model": "gpt-test", "max_tokens": 1000, "messages": [{"role": "user", "content": "worth=321"}]}`)
		g.awaitSum(t, 321)
		keys, err := g.client.Keys(ctx, g.name+":{llm|*|gpt-test}:sliding_window_counter:*").Result()
		if err != nil || len(keys) != 1 {
			t.Errorf("keys %q, %v", keys, err)
		}
	},
}

// TestAIPage: docs/ai.md shows the rule of ai.yaml.
func TestAIPage(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/ai.md")
	_, example, _ := strings.Cut(string(page), "```json rule\n")
	example, _, _ = strings.Cut(example, "```")
	c := envoytest.Parse(t, string(testenv.Read(t, "ai.yaml")))
	var shown any
	var shipped struct{ Rules []any }
	testenv.OK(t, json.Unmarshal([]byte(example), &shown))
	testenv.OK(t, json.Unmarshal([]byte(c.Get(pluginText).(string)), &shipped))
	if !reflect.DeepEqual([]any{shown}, shipped.Rules) {
		t.Errorf("docs/ai.md shows\n%v\nai.yaml has\n%v", shown, shipped.Rules)
	}
}

// aiKeys: a client is limited by the key that the provider reads, whatever it writes
// into the header that it does not read, and however it writes the first. docs/ai.md
// has the second way.
var aiKeys = aiTest{
	name: "keys", variants: []string{"authorization", "x-api-key"},
	changes: []string{`"limit": 60`, `"limit": 3`},
	edit: func(_ *testing.T, c *envoyconf.Config, key string) {
		if key == "x-api-key" {
			c.Set(envoyconf.ConnectionManager+"/http_filters/0/typed_config/mutations/request_mutations/0/remove",
				"authorization")
			c.SetPlugin(strings.Replace(c.Get(pluginText).(string), `{"bearer": true,`, `{"header": "x-api-key",`, 1))
		}
	},
	play: func(t *testing.T, g *aiGateway) {
		other, spellings := "x-api-key", []string{"Bearer k", "bearer k", "BEARER   k", "bEARER k", "Bearer  k"}
		if g.variant == other {
			other, spellings = "authorization", []string{"k", "k", "k", "k", "k"}
		}
		for i, want := range []int{200, 200, 200, 429, 429} {
			resp, _, err := testenv.Send(http.MethodPost, g.url+"/v1/chat/completions",
				`{"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "worth=50"}]}`,
				"content-type: application/json", fmt.Sprintf("%s: Bearer made-up-%d", other, i), g.variant+": "+spellings[i])
			testenv.OK(t, err)
			testenv.Same(t, spellings[i]+": status", resp.StatusCode, want)
		}
		for _, r := range g.upstream.Requests() {
			testenv.Same(t, "what the provider gets of "+other, r.Header.Get(other), "")
		}
	},
}
