package envoy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// provider pretends to be OpenAI and Anthropic. The request says what its answer is
// worth: "worth=321" is 321 tokens, 20 of which are the prompt's. "pause=500ms" is what
// it waits after each event of a stream, "usage={}" what it says of tokens in place of
// that.
type provider struct {
	asked, tokens atomic.Int64
	arrived       sync.Map // by API key: a func() for when its request has arrived
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked.Add(1)
	if arrived, ok := p.arrived.Load(strings.TrimPrefix(r.Header.Get("authorization"), "Bearer ")); ok {
		arrived.(func())()
	}
	var req struct {
		Stream   bool
		Messages []struct{ Content string }
		Input    string
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	words := req.Input
	for _, m := range req.Messages {
		words += m.Content
	}
	if words == "fail" {
		http.Error(w, `{"error": {"message": "overloaded", "type": "server_error"}}`, http.StatusInternalServerError)
		return
	}
	worth := 0
	if _, rest, ok := strings.Cut(words, "worth="); ok {
		worth, _ = strconv.Atoi(strings.Fields(rest)[0])
		p.tokens.Add(int64(worth))
	}
	time.Sleep(20 * time.Millisecond)
	a := answer{w: w, left: r.Context().Done(), worth: worth}
	if _, rest, ok := strings.Cut(words, "pause="); ok {
		a.pause, _ = time.ParseDuration(strings.Fields(rest)[0])
	}
	_, told, saysUsage := strings.Cut(words, "usage=")
	switch anthropic := r.URL.Path == "/v1/messages"; {
	case anthropic && saysUsage:
		a.cached(told, req.Stream)
	case saysUsage:
		a.absurd(told, req.Stream)
	case anthropic && req.Stream:
		a.events(anthropicEvents)
	case anthropic:
		a.json(`{` + anthropicMessage + `, "usage": {"input_tokens": 20, "output_tokens": %[2]d}}`)
	case r.URL.Path == "/v1/responses":
		a.json(`{"id": "r", "object": "response", "created_at": 1, "model": "gpt-test", "status": "completed",
			"parallel_tool_calls": false, "tool_choice": "auto", "tools": [],
			"output": [{"type": "message", "id": "m", "status": "completed", "role": "assistant",
				"content": [{"type": "output_text", "text": "hello world", "annotations": []}]}],
			"usage": {"input_tokens": 20, "output_tokens": %[2]d, "total_tokens": %[1]d,
				"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}`)
	case req.Stream:
		a.events(openaiEvents)
	default:
		a.json(`{"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-test",
			"choices": [{"index": 0, "finish_reason": "stop",
			"message": {"role": "assistant", "content": "hello world"}}],
				"usage": {"prompt_tokens": 20, "completion_tokens": %[2]d, "total_tokens": %[1]d}}`)
	}
}

// openaiEvents and anthropicEvents are streams; %[1]d is the worth, %[2]d that of the
// output.
var openaiEvents = []string{
	`data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", ` +
		`"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hello"}}], "usage": null}`,
	`data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", ` +
		`"choices": [{"index": 0, "delta": {"content": " world"}, "finish_reason": "stop"}], "usage": null}`,
	`data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test", "choices": [], ` +
		`"usage": {"prompt_tokens": 20, "completion_tokens": %[2]d, "total_tokens": %[1]d}}`,
	`data: [DONE]`,
}

var anthropicEvents = []string{
	"event: message_start\ndata: " +
		`{"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "claude-test", ` +
		`"content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 20, "output_tokens": 1}}}`,
	"event: content_block_start\ndata: " +
		`{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}`,
	"event: content_block_delta\ndata: " +
		`{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello world"}}`,
	"event: content_block_stop\ndata: " + `{"type": "content_block_stop", "index": 0}`,
	"event: message_delta\ndata: " +
		`{"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, ` +
		`"usage": {"output_tokens": %[2]d}}`,
	"event: message_stop\ndata: " + `{"type": "message_stop"}`,
}

// anthropicMessage is the members of a message but for its usage.
const anthropicMessage = `"id": "m", "type": "message", "role": "assistant", "model": "claude-test",
	"content": [{"type": "text", "text": "hello world"}], "stop_reason": "end_turn", "stop_sequence": null`

type answer struct {
	w     http.ResponseWriter
	left  <-chan struct{}
	worth int // 0: it says nothing of tokens
	pause time.Duration
}

var usage = regexp.MustCompile(`,\s*"usage"`)

func (a *answer) json(format string) {
	text := fmt.Sprintf(format, a.worth, a.worth-20)
	if a.worth == 0 {
		text = text[:usage.FindStringIndex(text)[0]] + "}"
	}
	a.w.Header().Set("content-type", "application/json")
	_, _ = io.WriteString(a.w, text)
}

func (a *answer) events(events []string) {
	a.w.Header().Set("content-type", "text/event-stream")
	for _, event := range events {
		if strings.Contains(event, "%[") {
			event = fmt.Sprintf(event, a.worth, a.worth-20)
		}
		if _, err := io.WriteString(a.w, event+"\n\n"); err != nil {
			return
		}
		a.w.(http.Flusher).Flush()
		select {
		case <-time.After(a.pause):
		case <-a.left:
			return
		}
	}
}

// absurd is an answer with this for its usage.
func (a *answer) absurd(usage string, stream bool) {
	if stream {
		a.events([]string{openaiEvents[0], openaiEvents[1], `data: {"id": "c", "object": "chat.completion.chunk", ` +
			`"created": 1, "model": "gpt-test", "choices": [], "usage": ` + usage + `}`, `data: [DONE]`})
		return
	}
	a.w.Header().Set("content-type", "application/json")
	fmt.Fprintf(a.w, `{"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-test", "choices": [], `+
		`"usage": %s}`, usage)
}

// cached is Anthropic's answer with this for its usage. A stream says it with its first event, which
// has one token of output.
func (a *answer) cached(usage string, stream bool) {
	if !stream {
		a.w.Header().Set("content-type", "application/json")
		fmt.Fprintf(a.w, `{`+anthropicMessage+`, "usage": %s}`, usage)
		return
	}
	var said struct {
		Output int `json:"output_tokens"`
	}
	_ = json.Unmarshal([]byte(usage), &said)
	a.worth = 20 + said.Output
	start := strings.Replace(anthropicEvents[0], `{"input_tokens": 20, "output_tokens": 1}`, usage, 1)
	a.events(append([]string{start}, anthropicEvents[1:]...))
}
