package wasmhost

import "slices"

// A direction is the way of the request, or of the response, through the
// filter: Envoy's FilterManager with this filter as the only one.
type direction struct {
	stream            *Stream
	out               *Message // where to what the filter lets pass goes
	headersMap        MapType
	onHeaders, onBody string

	state   iteration
	headers Pairs // nil: not come yet
	ended   bool  // the last of it has come

	body     *[]byte // what the guest may see of the body now
	buffer   []byte  // the body that waits
	buffered bool    // there is a body that waits, though it may be empty
}

// iteration is how far the filter lets its frames go on.
type iteration int

const (
	iterating   iteration = iota
	stoppedAll            // paused at the headers: nothing behind them gets to the filter either
	stoppedHere           // paused at the body: more of it still gets to the filter
)

// filter calls the guest. A Pause is not in force yet when what the guest has
// put off happens: a continue that comes from the same callback comes too early.
func (d *direction) filter(callback string, args ...uint32) Action {
	s := d.stream
	args = append([]uint32{s.context.id}, args...)
	r := s.host.call(s.context, callback, args...)
	switch {
	case r.stopped || s.Reset || s.host.failure != nil:
		return Pause
	case !r.ok:
		return Continue // the guest has no such callback
	case Action(r.value) > Pause:
		s.host.fail("%s: returned action %d, which Sluice has no use for", callback, r.value)
	}
	return Action(r.value)
}

// closed says that what still comes is dropped, and what waits does not go on:
// for a request as soon as the last of the response has come to the filter.
func (d *direction) closed() bool {
	s := d.stream
	if d == &s.request && s.response.ended {
		return true
	}
	return s.ended || s.Reset || s.Downstream.Ended
}

func (d *direction) pushHeaders(headers Pairs, ended bool) Action {
	if d.closed() {
		return Pause
	}
	d.headers, d.ended = slices.Clone(headers), ended
	d.stream.visible[d.headersMap] = &d.headers
	if d.filter(d.onHeaders, uint32(len(headers)), b2u(ended)) == Pause {
		d.state = stoppedAll
		return Pause
	}
	d.stream.visible[d.headersMap] = nil
	d.passHeaders()
	return Continue
}

func (d *direction) pushBody(b []byte, ended bool) Action {
	if d.closed() {
		return Pause
	}
	d.ended = ended
	if d.state == stoppedAll {
		d.keep(b)
		return Pause
	}
	return d.filterBody(b)
}

// filterBody shows the guest b behind the body that waits already.
func (d *direction) filterBody(b []byte) Action {
	d.keep(b)
	d.body = &d.buffer
	if d.filter(d.onBody, uint32(len(d.buffer)), b2u(d.ended)) == Pause {
		d.state = stoppedHere
		return Pause
	}
	d.body = nil
	d.state = iterating
	d.passHeaders()
	d.passBody()
	return Continue
}

func (d *direction) keep(b []byte) {
	d.buffer = slices.Concat(d.buffer, b)
	d.buffered = true
}

// resume is Envoy's commonContinue, of a request.
func (d *direction) resume() {
	state := d.state
	switch {
	case d.closed():
		return
	case d.stream.Local != nil:
		d.stream.host.fail("proxy_continue_stream(0) for a request that is being answered: Envoy sends it upstream")
		return
	case state == iterating:
		d.stream.host.fail("proxy_continue_stream(0) for a stream that is not paused")
		return
	}
	d.state = iterating
	d.body = nil
	d.passHeaders()
	if state == stoppedHere {
		d.passBody()
	} else if d.buffered {
		d.filterBody(nil)
	}
}

func (d *direction) passHeaders() {
	if d.out.Headers == nil && d.headers != nil {
		d.out.Headers = slices.Clone(d.headers)
		d.out.Ended = d.ended && !d.buffered
	}
}

func (d *direction) passBody() {
	if d.buffered {
		d.out.Body = append(d.out.Body, d.buffer...)
		d.out.Ended = d.ended
		d.buffer, d.buffered = nil, false
	}
}

// known is the headers for the log, or nil.
func (d *direction) known() *Pairs {
	if d.headers == nil {
		return nil
	}
	return &d.headers
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
