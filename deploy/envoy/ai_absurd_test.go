package envoy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// post sends a request with a key of its own, and returns its answer.
func (g *aiGateway) post(ctx context.Context, key, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("authorization", "Bearer "+key)
	req.Header.Set("content-type", "application/json")
	return http.DefaultClient.Do(req)
}

// answered is post until the answer has ended, be it cut off. It returns the answer's status.
func (g *aiGateway) answered(t *testing.T, key, path, body string) (status int) {
	t.Helper()
	resp, err := g.post(ctx, key, path, body)
	testenv.OK(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestAIAbsurdUsage: whatever a provider says of its tokens that is not a number of them, the answer
// is worth the limit.
func TestAIAbsurdUsage(t *testing.T) {
	t.Parallel()
	usages := []string{"null", "{}", "[]", "5", `"5"`, `{"total_tokens": null}`}
	for _, number := range []string{
		"0", "-5", "-9223372036854775809", "1e300", "9223372036854775807", "9223372036854775808", "18446744073709551615",
		`"many"`, "null", "true", `{"tokens": 3}`, "[3]", "NaN", "Infinity", "1e", "",
	} {
		usages = append(usages, fmt.Sprintf(`{"prompt_tokens": %[1]s, "completion_tokens": %[1]s, "total_tokens": %[1]s}`,
			number))
	}
	g := startAIInOrder(t)
	for _, stream := range []bool{false, true} {
		for i, usage := range usages {
			before := g.tokens(t)
			status := g.answered(t, fmt.Sprintf("%v-%d", stream, i), "/v1/chat/completions", fmt.Sprintf(
				`{"model": "gpt-test", "max_tokens": 1000, "stream": %v, "stream_options": {"include_usage": true},
					"messages": [{"role": "user", "content": %q}]}`,
				stream, "usage="+usage,
			))
			testenv.Same(t, usage+": status", status, http.StatusOK)
			g.awaitSettlements(t)
			testenv.Same(t, fmt.Sprintf("stream %v, usage %s: tokens", stream, usage), g.tokens(t)-before-lastWorth, limit)
		}
	}
}

// TestAILeavers: clients that leave before the answer pay what they reserved, and those that leave at
// any moment of a stream the limit, or what they have used.
func TestAILeavers(t *testing.T) {
	t.Parallel()
	g := startAIInOrder(t)
	const worth, pause, step = 432, 100 * time.Millisecond, 45 * time.Millisecond
	var group sync.WaitGroup
	clients := 0
	for path, events := range map[string]int{
		"/v1/chat/completions": len(openaiEvents),
		"/v1/messages":         len(anthropicEvents),
	} {
		for leave := step; leave < time.Duration(events+1)*pause; leave += step {
			clients++
			key := fmt.Sprint("key-", clients)
			group.Go(func() {
				leaving := g.provider.leaves(t, key, leave)
				resp, err := g.post(leaving, key, path, fmt.Sprintf(`{"model": "m", "max_tokens": 1000, "stream": true,
					"stream_options": {"include_usage": true},
					"messages": [{"role": "user", "content": "worth=%d pause=%v"}]}`, worth, pause))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
	}
	group.Wait()
	g.awaitSettlements(t)
	all := g.tokensByKey(t)
	testenv.Same(t, "keys", len(all), clients+1)
	for _, got := range all {
		settled, reserved := got == worth || got == lastWorth || got == limit, 1000 <= got && got <= 1200
		if !settled && !reserved {
			t.Errorf("%d tokens are charged, want %d, %d or the reservation of 1000 and some for the prompt; all: %v",
				got, worth, limit, all)
		}
	}
	t.Log(all)
}

// leaves is the context of a client that leaves so long after its request has reached the provider:
// by then it has been charged, however busy Envoy is.
func (p *provider) leaves(t *testing.T, key string, pause time.Duration) context.Context {
	t.Helper()
	leaving, leave := context.WithCancel(ctx)
	t.Cleanup(leave)
	p.arrived.Store(key, func() { time.AfterFunc(pause, leave) })
	return leaving
}

// TestAIOtherRequests: what the page says of requests whose bodies Envoy is not told how to read.
func TestAIOtherRequests(t *testing.T) {
	t.Parallel()
	g := startAIInOrder(t)
	const body = `{"model": "gpt-test", "input": "worth=321", "max_tokens": 1000}`
	for _, path := range []string{
		"/v1/embeddings", "/v1/completions", "/v1/chat/completions/", "/V1/Chat/Completions", "/chat/completions",
	} {
		testenv.Same(t, path+": status", g.answered(t, "key", path, body), http.StatusNotFound)
	}
	testenv.Same(t, "requests of the provider", g.upstream.Count(), 0)
	resp, err := http.Get(g.url + "/v1/models")
	testenv.OK(t, err)
	resp.Body.Close()
	testenv.Same(t, "requests of the provider", g.upstream.Count(), 1)
}

// TestAIGreed: however a client asks for more than Envoy says it asks for, the provider gives it no
// more than the limit. It keeps to max_tokens for each choice, and writes 16,000 without.
func TestAIGreed(t *testing.T) {
	t.Parallel()
	const requests = 55
	g := startAI(t)
	var mu sync.Mutex
	given := map[string]int64{}
	g.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		tokens := greedy(t, text)
		mu.Lock()
		given[r.Header.Get("authorization")] += tokens
		mu.Unlock()
		a := answer{w: w, left: r.Context().Done(), worth: int(tokens)}
		switch {
		case !strings.Contains(string(text), `"stream":true`):
			a.json(`{"id": "c", "object": "chat.completion", "choices": [], "usage": {"prompt_tokens": 20,
				"completion_tokens": %[2]d, "total_tokens": %[1]d}}`)
		case strings.Contains(string(text), `"include_usage":true`):
			a.events(openaiEvents)
		default:
			a.events(openaiEvents[:2])
		}
	}))
	const usage = `, "stream": true, "stream_options": {"include_usage": true}`
	for _, tc := range []struct{ name, authorization, contentType, members string }{
		{"choices", "Bearer a", "application/json", `"n": 20, "max_tokens": 1000` + usage},
		{"choices, not a stream", "Bearer b", "application/json", `"n": 20, "max_tokens": 1000`},
		{"no usage", "Bearer c", "application/json", `"n": 20, "max_tokens": 1000, "stream": true`},
		{"no max_tokens", "Bearer d", "application/json", `"n": 2` + usage},
		{"no max_tokens, no usage", "Bearer e", "application/json", `"stream": true`},
		{"choices as text", "Bearer f", "application/json", `"n": "20", "max_tokens": 1000` + usage},
		{"a large number", "Bearer i", "application/json", `"n": 20, "max_tokens": 16000, "seed": 9223372036854775808`},
		{"an escape", "Bearer g", "application/json", `"\u006e": 20, "max_tokens": 1000` + usage},
		{"another media type", "Bearer h", "text/plain", `"n": 20, "max_tokens": 1000` + usage},
		{"no key", "", "application/json", `"max_tokens": 10000` + usage},
		{"no token", "Bearer", "application/json", `"max_tokens": 10000` + usage},
	} {
		var group sync.WaitGroup
		for range requests {
			group.Go(func() { g.chat(t, tc.authorization, tc.contentType, tc.members) })
		}
		group.Wait()
		testenv.Within(t, tc.name+": tokens", given[tc.authorization], 0, limit)
	}
}

// chat sends a request with these members, and waits for the end of its answer.
func (g *aiGateway) chat(t *testing.T, authorization, contentType, members string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions",
		strings.NewReader(`{"model": "m", "messages": [], `+members+`}`))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("content-type", contentType)
	if authorization != "" {
		req.Header.Set("authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// greedy is how many tokens the provider gives a request.
func greedy(t *testing.T, body []byte) int64 {
	var asked struct {
		N         any
		MaxTokens int64 `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		t.Error(err)
	}
	choices := int64(1)
	if asked.N != nil {
		if _, err := fmt.Sscan(fmt.Sprint(asked.N), &choices); err != nil {
			t.Error(err)
		}
	}
	if asked.MaxTokens == 0 {
		asked.MaxTokens = 16_000
	}
	return 20 + choices*asked.MaxTokens
}

// TestAIAbsurdReservation: max_tokens that Envoy cannot read counts as none, n multiplies it, and what
// may be more than the limit is refused.
func TestAIAbsurdReservation(t *testing.T) {
	t.Parallel()
	const none, prompt = 16_000, 50 // at most
	g := startAI(t, `"missing": {"cost": 100000}`, `"missing": "keep"`)
	for i, tc := range []struct {
		members string
		status  int   // 200 unless stated
		output  int64 // tokens that are reserved in addition to the prompt's
	}{
		{members: `"max_tokens": 1`, output: 1},
		{members: `"max_tokens": 1000`, output: 1000},
		{members: `"max_tokens": 1000.0`, output: 1000},
		{members: `"max_tokens": 1, "max_completion_tokens": 1000`, output: 1000},
		{members: `"max_tokens": 1, "max_tokens": 1000`, status: http.StatusBadRequest},
		{members: `"max_tokens": 0`, output: none},
		{members: `"max_tokens": -5`, output: none},
		{members: `"max_tokens": 2.5`, output: none},
		{members: `"max_tokens": "1"`, output: none},
		{members: `"max_tokens": null`, output: none},
		{members: `"max_tokens": true`, output: none},
		{members: `"max_tokens": [1]`, output: none},
		{members: `"max_tokens": {"a": 1}`, output: none},
		{members: `"max_tokens": 9223372036854775808`, status: http.StatusBadRequest},
		{members: `"max_tokens": 18446744073709551617`, output: none},
		{members: `"max_tokens": 1e300`, output: none},
		{members: `"max_tokens": 100000`, status: http.StatusTooManyRequests},
		{members: `"max_tokens": 2147483648`, status: http.StatusTooManyRequests},
		{members: `"max_tokens": 4294967297`, status: http.StatusTooManyRequests},
		{members: `"max_tokens": 1000, "n": 20`, output: 20_000},
		{members: `"max_tokens": 1000, "n": "3"`, status: http.StatusBadRequest},
		{members: `"max_tokens": 1000, "n": null`, output: 1000},
		{members: `"max_tokens": 1000, "n": 0`, output: 1000},
		{members: `"max_tokens": 1000, "n": true`, status: http.StatusBadRequest},
		{members: `"max_tokens": 1000, "n": 3, "seed": 9223372036854775808`, status: http.StatusBadRequest},
		{members: `"max_tokens": 1000, "n": 1e300`, status: http.StatusTooManyRequests},
		{members: `"n": 128`, status: http.StatusTooManyRequests},
	} {
		before := g.tokens(t)
		status := g.answered(t, fmt.Sprint("key-", i), "/v1/chat/completions", fmt.Sprintf(
			`{"model": "gpt-test", %s, "messages": [{"role": "user", "content": "usage=null"}]}`, tc.members,
		))
		testenv.Same(t, tc.members+": status", status, max(tc.status, http.StatusOK))
		got, least, most := g.tokens(t)-before, tc.output, min(tc.output+prompt, limit)
		if tc.output == 0 {
			most = 0
		}
		if got < least || got > most {
			t.Errorf("%s: %d tokens are reserved, want %d to %d", tc.members, got, least, most)
		}
	}
}
