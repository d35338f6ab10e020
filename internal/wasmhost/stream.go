package wasmhost

// A Stream is one HTTP request and its response on their way through the
// filter. What the filter let pass is in Upstream and Downstream.
type Stream struct {
	// Properties of this stream. They come before those of the Options.
	Properties Properties
	// Attributes of this stream.
	Attributes map[string]any
	// FilterState is the guest's filter state, as Envoy names it: "wasm.<path>".
	FilterState map[string][]byte
	// Upstream went on to the next filter, Downstream went back to the client.
	Upstream, Downstream Message
	// Local is the guest's local response, as the guest gave it.
	Local *LocalResponse
	// Reset is set when the stream was cut off.
	Reset bool
	// Unlogged: the guest hears of no log, as in an upstream's filters, and of a whole response over HTTP/3.
	Unlogged bool

	context  *vmContext
	host     *Host
	request  direction
	response direction
	visible  map[MapType]*Pairs // the header maps the guest may see now
	logging  bool               // proxy_on_log runs
	ended    bool
}

// A Message is the part of a request or a response that has passed.
type Message struct {
	Headers Pairs // nil: not passed yet
	Body    []byte
	Ended   bool
}

// TakeBody is the body that has passed since the last call.
func (m *Message) TakeBody() []byte {
	b := m.Body
	m.Body = nil
	return b
}

// NewStream makes the context of a stream.
func (p *Plugin) NewStream() *Stream {
	s := &Stream{
		host: p.host, Properties: Properties{}, FilterState: map[string][]byte{}, visible: map[MapType]*Pairs{},
	}
	s.request = direction{
		stream: s, out: &s.Upstream, headersMap: RequestHeaders,
		onHeaders: "proxy_on_request_headers", onBody: "proxy_on_request_body",
	}
	s.response = direction{
		stream: s, out: &s.Downstream, headersMap: ResponseHeaders,
		onHeaders: "proxy_on_response_headers", onBody: "proxy_on_response_body",
	}
	s.context = p.host.newContext(p, s)
	p.streams++
	p.host.call(s.context, "proxy_on_context_create", s.context.id, p.id)
	return s
}

func (s *Stream) direction(t BufferType) *direction {
	if t == RequestBody {
		return &s.request
	}
	return &s.response
}

// RequestHeaders brings the request's headers. The action follows from what the guest returned, as in
// Envoy: after a local response it is always Pause.
func (s *Stream) RequestHeaders(headers Pairs, endOfStream bool) Action {
	return s.request.pushHeaders(headers, endOfStream)
}

// RequestBody brings a piece of the request's body. While the headers are
// paused it is kept until they go on.
func (s *Stream) RequestBody(body []byte, endOfStream bool) Action {
	return s.request.pushBody(body, endOfStream)
}

// RequestPaused reports whether the request waits for the guest.
func (s *Stream) RequestPaused() bool { return s.request.state != iterating }

// ResponseHeaders brings the headers of the upstream's response.
func (s *Stream) ResponseHeaders(headers Pairs, endOfStream bool) Action {
	return s.response.pushHeaders(headers, endOfStream)
}

// ResponseBody brings a piece of the body of the upstream's response.
func (s *Stream) ResponseBody(body []byte, endOfStream bool) Action {
	return s.response.pushBody(body, endOfStream)
}

// End is the end of the stream, whatever it came to: it is logged, then done,
// then deleted.
func (s *Stream) End() {
	if s.ended {
		return
	}
	s.ended = true
	if !s.Unlogged {
		s.log()
	}
	s.host.call(s.context, "proxy_on_done", s.context.id)
	s.host.call(s.context, "proxy_on_delete", s.context.id)
	delete(s.host.contexts, s.context.id)
	s.context.plugin.streams--
	s.context.plugin.closeIfUnused()
}

// log shows the guest the headers once more, to read only.
func (s *Stream) log() {
	s.logging = true
	s.visible = map[MapType]*Pairs{RequestHeaders: s.request.known(), ResponseHeaders: s.response.known()}
	s.host.call(s.context, "proxy_on_log", s.context.id)
	s.logging = false
	clear(s.visible)
}

// ContinueRequest is proxy_continue_stream(0). From here on the guest sees the request
// no more, though it goes on only when the callback has returned.
func (c Caller) ContinueRequest() Status {
	s := c.stream
	if s == nil {
		return StatusOK
	}
	s.visible[RequestHeaders] = nil
	if s.request.state != stoppedHere { // else it waits where it stays visible
		s.request.body = nil
	}
	c.h.later(s.request.resume)
	return StatusOK
}
