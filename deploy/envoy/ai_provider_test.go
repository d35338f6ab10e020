package envoy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// api is how a provider answers at a path. TOTAL is its tokens, OUTPUT those of the output, USAGE what it says of
// them, and START the same before there is any output.
type api struct {
	usage, answer string
	events        []string // of a stream
}

var apis = map[string]api{
	"/v1/chat/completions": {
		usage: `{"prompt_tokens": 20, "completion_tokens": OUTPUT, "total_tokens": TOTAL}`,
		answer: `{"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-test",
			"choices": [{"index": 0, "finish_reason": "stop",
				"message": {"role": "assistant", "content": "hello world"}}], "usage": USAGE}`,
		events: []string{
			`data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", ` +
				`"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}}], "usage": null}`,
			`data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", ` +
				`"choices": [{"index": 0, "delta": {"content": " world"}, "finish_reason": "stop"}], "usage": null}`,
			`data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", "choices": [], ` +
				`"usage": USAGE}`,
			`data: [DONE]`,
		},
	},
	"/v1/responses": {
		usage: `{"input_tokens": 20, "output_tokens": OUTPUT, "total_tokens": TOTAL,
			"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}`,
		answer: `{"id": "r", "object": "response", "created_at": 1, "model": "gpt-test", "status": "completed",
			"parallel_tool_calls": false, "tool_choice": "auto", "tools": [],
			"output": [{"type": "message", "id": "m", "status": "completed", "role": "assistant",
				"content": [{"type": "output_text", "text": "hello world", "annotations": []}]}], "usage": USAGE}`,
	},
	"/v1/messages": {
		usage: `{"input_tokens": 20, "output_tokens": OUTPUT}`,
		answer: `{"id": "m", "type": "message", "role": "assistant", "model": "claude-test",
			"content": [{"type": "text", "text": "hello world"}],
			"stop_reason": "end_turn", "stop_sequence": null, "usage": USAGE}`,
		events: []string{
			"event: message_start\ndata: " +
				`{"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", ` +
				`"model": "claude-test", "content": [], "stop_reason": null, "stop_sequence": null, "usage": START}}`,
			"event: content_block_start\ndata: " +
				`{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}`,
			"event: content_block_delta\ndata: " +
				`{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello world"}}`,
			"event: content_block_stop\ndata: " + `{"type": "content_block_stop", "index": 0}`,
			"event: message_delta\ndata: " +
				`{"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, ` +
				`"usage": {"output_tokens": OUTPUT}}`,
			"event: message_stop\ndata: " + `{"type": "message_stop"}`,
		},
	},
}

// provider pretends to be OpenAI and Anthropic. What a request says decides what its answer is worth: "worth=321" is
// 321 tokens, 20 of which are the prompt's, "usage={}" what the provider says of tokens in place of that, "greedy"
// all that is asked for; else it says nothing of tokens. After each event of a stream it waits for "pause=500ms".
type provider struct {
	mu    sync.Mutex
	given map[string]int // tokens by authorization
	total atomic.Int64   // of all
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Stream        bool
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages  []struct{ Content string }
		Input     string
		N         json.RawMessage
		MaxTokens json.RawMessage `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	words, worth, pause := asked.Input, 0, time.Duration(0)
	for _, m := range asked.Messages {
		words += m.Content
	}
	words, usage, _ := strings.Cut(words, "usage=")
	for word := range strings.FieldsSeq(words) {
		_, _ = fmt.Sscanf(word, "worth=%d", &worth)
		if text, ok := strings.CutPrefix(word, "pause="); ok {
			pause, _ = time.ParseDuration(text)
		}
	}
	switch words {
	case "fail":
		http.Error(w, `{"error": {"message": "overloaded", "type": "server_error"}}`, http.StatusInternalServerError)
		return
	case "greedy":
		choices, most := 1, 16_000
		_, _ = fmt.Sscan(strings.Trim(string(asked.N), `"`), &choices)
		_, _ = fmt.Sscan(string(asked.MaxTokens), &most)
		worth = 20 + choices*most
	}
	p.mu.Lock()
	p.given[r.Header.Get("authorization")] += worth
	p.mu.Unlock()
	p.total.Add(int64(worth))

	time.Sleep(20 * time.Millisecond)
	spoken, output := apis[r.URL.Path], fmt.Sprint(worth-20)
	if usage == "" && worth > 0 {
		usage = strings.NewReplacer("OUTPUT", output, "TOTAL", fmt.Sprint(worth)).Replace(spoken.usage)
	}
	var told struct {
		Output json.Number `json:"output_tokens"`
	}
	if json.Unmarshal([]byte(usage), &told) == nil && told.Output != "" {
		output = told.Output.String()
	}
	const atStart = `"output_tokens": `
	fill := strings.NewReplacer("START", strings.Replace(usage, atStart+output, atStart+"1", 1), "OUTPUT", output,
		`, "usage": USAGE`, map[bool]string{true: `, "usage": ` + usage}[usage != ""])
	if !asked.Stream {
		w.Header().Set("content-type", "application/json")
		_, _ = io.WriteString(w, fill.Replace(spoken.answer))
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	for _, event := range spoken.events {
		if strings.Contains(event, `"choices": [], "usage"`) && !asked.StreamOptions.IncludeUsage {
			continue
		}
		if _, err := io.WriteString(w, fill.Replace(event)+"\n\n"); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return
		}
	}
}
