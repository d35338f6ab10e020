package envoy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// aiAbsurdUsage: whatever a provider says of its tokens that is not a number of them, the answer
// is worth the limit.
var aiAbsurdUsage = aiTest{name: "absurd usage", play: func(t *testing.T, g *aiGateway) {
	usages := []string{"null", "{}", "[]", "5", `"5"`, `{"total_tokens": null}`}
	for _, number := range []string{
		"0", "-5", "-9223372036854775809", "1e300", "9223372036854775807", "9223372036854775808", "18446744073709551615",
		`"many"`, "null", "true", `{"tokens": 3}`, "[3]", "NaN", "Infinity", "1e", "",
	} {
		usages = append(usages, fmt.Sprintf(`{"prompt_tokens": %[1]s, "completion_tokens": %[1]s, "total_tokens": %[1]s}`,
			number))
	}
	sum := 0
	for _, stream := range []bool{false, true} {
		for i, usage := range usages {
			status, _ := g.ask(t, fmt.Sprintf("%v-%d", stream, i), "/v1/chat/completions", fmt.Sprintf(
				`{"model": "gpt-test", "max_tokens": 1000, "stream": %v, "stream_options": {"include_usage": true},
					"messages": [{"role": "user", "content": %q}]}`,
				stream, "usage="+usage,
			))
			testenv.Same(t, usage+": status", status, http.StatusOK)
			sum += limit
			g.awaitSum(t, sum)
		}
	}
}}

// aiLeavers: clients that leave at any moment of a stream pay the limit, or what they have used.
var aiLeavers = aiTest{name: "leavers", play: func(t *testing.T, g *aiGateway) {
	const worth, pause, step = 432, 100 * time.Millisecond, 45 * time.Millisecond
	var group sync.WaitGroup
	clients := 0
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		ended := time.Duration(len(apis[path].events)+1) * pause
		for leave := time.Duration(0); leave < ended; leave += step {
			clients++
			leaving, cancel := context.WithCancel(ctx)
			req, err := http.NewRequestWithContext(leaving, http.MethodPost, g.url+path, strings.NewReader(fmt.Sprintf(
				`{"model": "m", "max_tokens": 1000, "stream": true, "stream_options": {"include_usage": true},
					"messages": [{"role": "user", "content": "worth=%d pause=%v"}]}`, worth, pause,
			)))
			testenv.OK(t, err)
			req.Header.Set("authorization", fmt.Sprint("Bearer key-", clients))
			req.Header.Set("content-type", "application/json")
			group.Go(func() {
				defer cancel()
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				defer time.AfterFunc(leave, cancel).Stop()
				_, _ = io.Copy(io.Discard, resp.Body)
			})
		}
	}
	group.Wait()
	testenv.Wait(t, patience, func() error {
		_, all := g.charged(t)
		for _, got := range all {
			if got != worth && got != limit {
				return fmt.Errorf("%d tokens are charged, want %d or %d; all: %v", got, worth, limit, all)
			}
		}
		if len(all) != clients || !slices.Contains(all, worth) || !slices.Contains(all, limit) {
			return fmt.Errorf("%v is charged, want the worth or the limit of %d requests, and both", all, clients)
		}
		return nil
	})
}}

// aiOtherRequests: what the page says of requests whose bodies Envoy is not told how to read.
var aiOtherRequests = aiTest{name: "other requests", play: func(t *testing.T, g *aiGateway) {
	const body = `{"model": "gpt-test", "input": "worth=321", "max_tokens": 1000}`
	for _, path := range []string{
		"/v1/embeddings", "/v1/completions", "/v1/chat/completions/", "/V1/Chat/Completions", "/chat/completions",
	} {
		status, _ := g.ask(t, "key", path, body)
		testenv.Same(t, path+": status", status, http.StatusNotFound)
	}
	testenv.Same(t, "requests of the provider", g.upstream.Count(), 0)
	_, _, err := testenv.Send(http.MethodGet, g.url+"/v1/models", "")
	testenv.OK(t, err)
	testenv.Same(t, "requests of the provider", g.upstream.Count(), 1)
}}

// aiGreed: however a client asks for more than Envoy says it asks for, the provider gives it no
// more than the limit. It keeps to max_tokens for each choice, and writes 16,000 without.
var aiGreed = aiTest{name: "greed", play: func(t *testing.T, g *aiGateway) {
	const requests = 55
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
			group.Go(func() {
				body := `{"model": "m", "messages": [{"role": "user", "content": "greedy"}], ` + tc.members + `}`
				fields := []string{"content-type: " + tc.contentType, "authorization: " + tc.authorization}
				if tc.authorization == "" {
					fields = fields[:1]
				}
				if _, _, err := testenv.Send(http.MethodPost, g.url+"/v1/chat/completions", body, fields...); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		testenv.Within(t, tc.name+": tokens", g.provider.given[tc.authorization], 0, limit)
	}
}}

// aiAbsurdReservation: max_tokens that Envoy cannot read counts as none, n multiplies it, and what
// may be more than the limit is refused.
var aiAbsurdReservation = aiTest{
	name: "absurd reservation", changes: []string{`"missing": {"cost": 100000}`, `"missing": "keep"`},
	play: func(t *testing.T, g *aiGateway) {
		const none, prompt = 16_000, 50 // at most
		for i, tc := range []struct {
			members string
			status  int // 200 unless stated
			output  int // tokens that are reserved in addition to the prompt's
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
			before, _ := g.charged(t)
			status, _ := g.ask(t, fmt.Sprint("key-", i), "/v1/chat/completions", fmt.Sprintf(
				`{"model": "gpt-test", %s, "messages": [{"role": "user", "content": "usage=null"}]}`, tc.members,
			))
			testenv.Same(t, tc.members+": status", status, max(tc.status, http.StatusOK))
			after, _ := g.charged(t)
			got, least, most := after-before, tc.output, min(tc.output+prompt, limit)
			if tc.output == 0 {
				most = 0
			}
			if got < least || got > most {
				t.Errorf("%s: %d tokens are reserved, want %d to %d", tc.members, got, least, most)
			}
		}
	},
}
