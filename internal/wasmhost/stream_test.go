package wasmhost

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func expectMessage(t *testing.T, what string, got, want Message) {
	t.Helper()
	testenv.SameList(t, what+": the headers", got.Headers, want.Headers)
	testenv.Same(t, what+": the body", string(got.Body), string(want.Body))
	testenv.Same(t, what+": that it has ended", got.Ended, want.Ended)
}

func TestStreamPasses(t *testing.T) {
	t.Parallel()
	_, p := startGuest(t, Options{}, `
		/a request_headers
		set 0 x-new 1
		/a request_body
		setbuf 0 0 0 <
		/a response_headers
		del 2 server
		/a response_body
		setbuf 1 99 0 >`)
	s := p.NewStream()
	s.RequestHeaders(Request("PUT", "/a"), false)
	s.RequestBody([]byte("one"), false)
	if got := string(s.Upstream.TakeBody()); got != "<one" {
		t.Errorf("first piece: %q", got)
	}
	s.RequestBody([]byte("two"), true)
	s.ResponseHeaders(Response("200", "server", "s"), false)
	s.ResponseBody([]byte("three"), true)
	expectMessage(t, "upstream", s.Upstream,
		Message{append(Request("PUT", "/a"), [2]string{"x-new", "1"}), []byte("<two"), true})
	expectMessage(t, "downstream", s.Downstream, Message{Response("200"), []byte("three>"), true})
}

// Behind paused headers everything waits, and then comes to the filter.
func TestPausedHeadersHoldAll(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, `
		/a request_headers
		return 1
		/go request_headers
		enter /a
		continue 0`)
	s := p.NewStream()
	for i, action := range []Action{
		s.RequestHeaders(Request("PUT", "/a"), false),
		s.RequestBody([]byte("one"), false),
		s.RequestBody([]byte("two"), true),
	} {
		if action != Pause {
			t.Errorf("%d: %v, want a pause", i, action)
		}
	}
	expectMessage(t, "before", s.Upstream, Message{})
	h.Logs = nil
	tell(p, "/go")
	expectLog(t, h, `
		/go request_headers 1
		enter /a = 0
		continue 0 = 0
		/a request_body 6 1`)
	if s.RequestPaused() {
		t.Error("still paused")
	}
	expectMessage(t, "after", s.Upstream, Message{Request("PUT", "/a"), []byte("onetwo"), true})
}

// A paused body grows until the filter lets it go on, from elsewhere.
func TestPausedBodyGrows(t *testing.T) {
	t.Parallel()
	script := `
		/a request_body
		return 1
		/go request_headers
		enter /a
		continue 0`
	h, p := startGuest(t, Options{}, script)
	a := p.NewStream()
	a.RequestHeaders(Request("PUT", "/a"), false)
	a.RequestBody([]byte("one"), false)
	a.RequestBody([]byte("two"), false)
	expectMessage(t, "before", a.Upstream, Message{Headers: Request("PUT", "/a")})
	if got := strings.Count(strings.Join(logged(h), "\n"), "request_body 6 0"); got != 1 {
		t.Errorf("the whole body was seen %d times, want once", got)
	}
	tell(p, "/go")
	expectMessage(t, "after", a.Upstream, Message{Headers: Request("PUT", "/a"), Body: []byte("onetwo")})
}

func TestLocalResponse(t *testing.T) {
	t.Parallel()
	_, p := startGuest(t, Options{}, `
		/a request_headers
		reply 429 why body 8 x-a b
		/a response_headers
		set 2 x-late c`)
	s := tell(p, "/a")
	if s.Local == nil {
		t.Fatal("the guest sent no response")
	}
	testenv.Same(t, "status", s.Local.Status, 429)
	testenv.Same(t, "details", s.Local.Details, "why")
	testenv.Same(t, "body", s.Local.Body, "body")
	testenv.Same(t, "gRPC status", s.Local.GRPCStatus, 8)
	if !slices.Equal(s.Local.Headers, Pairs{{"x-a", "b"}}) {
		t.Errorf("headers %q", s.Local.Headers)
	}
	expectMessage(t, "upstream", s.Upstream, Message{})
	headers := Response("429", "x-a", "b", "content-length", "4", "content-type", "text/plain", "x-late", "c")
	expectMessage(t, "downstream", s.Downstream, Message{Headers: headers, Body: []byte("body"), Ended: true})
	testenv.Same(t, "action of a late body", s.RequestBody([]byte("late"), true), Pause)
	testenv.Same(t, "action of a late response", s.ResponseHeaders(Response("200"), true), Pause)
}

// A response that waits in the filter is replaced behind it, and one that the
// client has begun to get is cut off.
func TestLocalResponseToAResponse(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, `
		/a response_headers
		return 1
		/deny request_headers
		enter /a
		reply 503 why body -1
		/b response_body
		reply 503 why body -1`)
	a, b := tell(p, "/a"), tell(p, "/b")
	a.ResponseHeaders(Response("200"), false)
	b.ResponseHeaders(Response("200"), false)
	h.Logs = nil
	tell(p, "/deny")
	b.ResponseBody([]byte("x"), true)
	expectLog(t, h, `
		/deny request_headers 1
		enter /a = 0
		reply 503 why body -1 = 0
		/b response_body 1 1
		reply 503 why body -1 = 0`)
	expectMessage(t, "a", a.Downstream,
		Message{
			Headers: Response("503", "content-length", "4", "content-type", "text/plain"),
			Body:    []byte("body"), Ended: true,
		})
	expectMessage(t, "b", b.Downstream, Message{Headers: Response("200")})
	testenv.Same(t, "that a was cut off", a.Reset, false)
	testenv.Same(t, "that b was cut off", b.Reset, true)
}

// What would go wrong in Envoy without a word is an error here.
func TestMisuse(t *testing.T) {
	t.Parallel()
	for want, script := range map[string]string{
		"not paused":            "/a request_headers\n continue 0\n",
		"second local response": "/a request_headers\n reply 429 d b -1\n reply 429 d b -1\n",
		"being answered":        "/a request_headers\n reply 429 d b -1\n continue 0\n return 1\n",
		"returned action 2":     "/a request_headers\n return 2\n",
	} {
		h, err := New(Options{Wasm: guest(t, "custommalloc")})
		if err != nil {
			t.Fatal(err)
		}
		tell(startPlugin(t, h, script), "/a")
		if h.Err() == nil || !strings.Contains(h.Err().Error(), want) {
			t.Errorf("%s: got %v, want one about %q", script, h.Err(), want)
		}
		h.Close()
	}
}

// Continuing what was answered or is gone does nothing.
func TestLateContinue(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, `
		/a request_headers
		return 1
		/answer request_headers
		enter /a
		reply 429 d _ -1
		continue 0
		plugin tick
		enter 2
		continue 0`)
	a := tell(p, "/a")
	tell(p, "/answer")
	p.Tick()
	expectMessage(t, "upstream", a.Upstream, Message{})
	a.End()
	h.Logs = nil
	p.Tick()
	expectLog(t, h, `
		plugin tick
		enter 2 = 2
		continue 0 = 0`)
}
