package envoy_test

import (
	"context"
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

// TestAIAbsurdUsage: whatever a provider says of its tokens that is not a number of them,
// the reservation stands.
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
			resp, err := g.post(ctx, fmt.Sprint(stream, i), "/v1/chat/completions", fmt.Sprintf(
				`{"model": "gpt-test", "max_tokens": 1000, "stream": %v, "messages": [{"role": "user", "content": %q}]}`,
				stream, "usage="+usage,
			))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			testenv.Same(t, usage+": status", resp.StatusCode, http.StatusOK)
			g.awaitSettlements(t)
			if got := g.tokens(t) - before - lastWorth; got < 1000 || got > 1200 {
				t.Errorf("stream %v, usage %s: %d tokens are charged, want 1000 and some for the prompt", stream, usage, got)
			}
		}
	}
}

// TestAILeavers: clients that leave at any moment of a stream pay what they reserved, or
// what they have used.
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
		settled, reserved := got == worth || got == lastWorth, 1000 <= got && got <= 1200
		if !settled && !reserved {
			t.Errorf("%d tokens are charged, want %d or the reservation of 1000 and some for the prompt; all: %v",
				got, worth, all)
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

// TestAIOtherRequests: what the page says of requests without a key, and of paths whose
// bodies Envoy is not told how to read.
func TestAIOtherRequests(t *testing.T) {
	t.Parallel()
	g := startAIInOrder(t)
	const body = `{"model": "gpt-test", "input": "worth=321", "max_tokens": 1000}`
	resp, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	testenv.Same(t, "without a key: limit", resp.Header.Get("x-ratelimit-limit"), "")
	testenv.Same(t, "without a key: tokens", g.tokens(t), 0)
	resp, err = g.post(ctx, "key", "/v1/embeddings", body)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	g.awaitSettlements(t)
	testenv.Same(t, "another path: tokens", g.tokens(t)-lastWorth, 3000)
}

// TestAIAbsurdReservation: max_tokens that Envoy cannot read counts as none, and no client
// reserves more than the limit.
func TestAIAbsurdReservation(t *testing.T) {
	t.Parallel()
	const none, limit, prompt = 2000, 100_000, 50 // at most
	g := startAI(t)
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
		{members: `"max_tokens": 9223372036854775808`, output: none},
		{members: `"max_tokens": 18446744073709551617`, output: none},
		{members: `"max_tokens": 1e300`, output: none},
		{members: `"max_tokens": 99999`, output: limit},
		{members: `"max_tokens": 2147483648`, output: limit},
		{members: `"max_tokens": 4294967297`, output: limit},
	} {
		before := g.tokens(t)
		resp, err := g.post(ctx, fmt.Sprint("key-", i), "/v1/chat/completions", fmt.Sprintf(
			`{"model": "gpt-test", %s, "messages": [{"role": "user", "content": "usage=null"}]}`, tc.members,
		))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if want := max(tc.status, http.StatusOK); resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", tc.members, resp.StatusCode, want)
		}
		got, least, most := g.tokens(t)-before, tc.output, min(tc.output+prompt, limit)
		if tc.output == 0 {
			most = 0
		}
		if got < least || got > most {
			t.Errorf("%s: %d tokens are reserved, want %d to %d", tc.members, got, least, most)
		}
	}
}
