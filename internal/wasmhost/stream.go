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
	// Upstream is what went on to the next filter, Downstream what went back to
	// the client.
	Upstream, Downstream Message
	// Local is the guest's local response, as the guest gave it.
	Local *LocalResponse
	// Reset is set when the stream was cut off.
	Reset bool

	context  *vmContext
	host     *Host
	request  direction
	response direction
	visible  [ResponseTrailers + 1]*Pairs // the header maps the guest may see now
	logging  bool                         // proxy_on_log runs
	unlogged bool                         // Envoy has no log for upstream filters
	ended    bool
}

// A Message is the part of a request or a response that has passed.
type Message struct {
	Headers  Pairs // nil: not passed yet
	Body     []byte
	Trailers Pairs
	Ended    bool
}

// TakeBody is the body that has passed since the last call.
func (m *Message) TakeBody() []byte {
	b := m.Body
	m.Body = nil
	return b
}

// NewStream makes the context of a stream.
func (p *Plugin) NewStream() *Stream {
	s := &Stream{host: p.host, Properties: Properties{}, FilterState: map[string][]byte{}}
	s.request = direction{
		stream: s, kind: RequestStream, out: &s.Upstream, headersMap: RequestHeaders, trailersMap: RequestTrailers,
		onHeaders: "proxy_on_request_headers", onBody: "proxy_on_request_body", onTrailers: "proxy_on_request_trailers",
	}
	s.response = direction{
		stream: s, kind: ResponseStream, out: &s.Downstream, headersMap: ResponseHeaders, trailersMap: ResponseTrailers,
		onHeaders: "proxy_on_response_headers", onBody: "proxy_on_response_body", onTrailers: "proxy_on_response_trailers",
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

// RequestHeaders brings the request's headers. The action is what Envoy makes
// of what the guest returned: after a local response always Pause.
func (s *Stream) RequestHeaders(headers Pairs, endOfStream bool) Action {
	return s.request.pushHeaders(headers, endOfStream)
}

// RequestBody brings a piece of the request's body. While the headers are
// paused it is kept until they go on.
func (s *Stream) RequestBody(body []byte, endOfStream bool) Action {
	return s.request.pushBody(body, endOfStream)
}

// RequestTrailers brings the request's trailers, which end it.
func (s *Stream) RequestTrailers(trailers Pairs) Action {
	return s.request.pushTrailers(trailers)
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

// ResponseTrailers brings the trailers of the upstream's response.
func (s *Stream) ResponseTrailers(trailers Pairs) Action {
	return s.response.pushTrailers(trailers)
}

// ResponsePaused reports whether the response waits for the guest.
func (s *Stream) ResponsePaused() bool { return s.response.state != iterating }

// End is the end of the stream, whatever it came to: it is logged, then done,
// then deleted.
func (s *Stream) End() {
	if s.ended {
		return
	}
	s.ended = true
	if !s.unlogged {
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
	s.visible = [ResponseTrailers + 1]*Pairs{RequestHeaders: s.request.known(), ResponseHeaders: s.response.known()}
	s.host.call(s.context, "proxy_on_log", s.context.id)
	s.logging = false
	s.visible = [ResponseTrailers + 1]*Pairs{}
}

// ContinueStream is proxy_continue_stream. From here on the guest sees the request
// no more, though it goes on only when the callback has returned.
func (c Caller) ContinueStream(t StreamType) Status {
	s := c.stream
	switch {
	case t >= streamTypes:
		return StatusBadArgument
	case t == upstreamStream:
		return StatusUnimplemented
	case s == nil || t == downstreamStream:
		return StatusOK
	}
	d := &s.request
	if t == ResponseStream {
		d = &s.response
	}
	s.visible[RequestHeaders], s.visible[RequestTrailers] = nil, nil
	if s.request.state != stoppedHere { // else it waits where it stays visible
		s.request.body = nil
	}
	c.h.later(d.resume)
	return StatusOK
}

// CloseStream is proxy_close_stream. It cuts the stream off when the callback has
// returned.
func (c Caller) CloseStream(t StreamType) Status {
	if t >= streamTypes {
		return StatusBadArgument
	}
	if s := c.stream; s != nil {
		c.h.later(func() { s.Reset = true })
	}
	return StatusOK
}
