package main

import (
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/decide"
)

// redirects lets a request that Envoy redirects internally go on as the one that it
// was: its client has sent one request, which is decided and charged once.
//
// Envoy ends the first pass, without a response, and begins the next one in the same
// event, with a context of its own. What proves that they are one request is filter
// state, which no client can set; x-envoy-original-url proves nothing.
type redirects struct {
	host host
	mark string // the name of the filter state
	kept *decide.Question
}

// newRedirects declares the filter state, which has to outlive a pass. Envoy takes
// declarations while a configuration is loaded. Each configuration has a name of
// its own, so that two of them in one chain keep out of each other's way.
func newRedirects(h host, pluginID uint32) *redirects {
	r := &redirects{host: h, mark: "sluice.redirected." + strconv.FormatUint(uint64(pluginID), 10)}
	h.foreign(pluginID, "declare_property", declaration(r.mark))
	return r
}

// declaration is an envoy.source.extensions.common.wasm.DeclarePropertyArguments
// message: {name, type: String, span: DownstreamRequest}.
func declaration(name string) []byte {
	return append(appendField(nil, name), 3<<3, 1, 5<<3, 1)
}

// follows reports whether another pass follows a request that passed, and whose stream
// ends without a response.
func (r *redirects) follows(q *decide.Question) bool {
	details, _ := r.host.property(q.ContextID, "response\x00code_details")
	return string(details) == "internal_redirect"
}

// keep keeps the question of a request for its next pass. None may be kept already.
func (r *redirects) keep(q *decide.Question) {
	r.host.setProperty(q.ContextID, r.mark, strconv.FormatUint(uint64(q.ContextID), 10))
	r.kept = q
}

// take is the question that a new request goes on with; nil if the request was not
// redirected. Nothing comes between the two passes, so a question that was kept for
// another request is over.
func (r *redirects) take(contextID uint32) (q, over *decide.Question) {
	q, r.kept = r.kept, nil
	if q == nil {
		return nil, nil
	}
	mark, _ := r.host.property(contextID, r.mark)
	if string(mark) != strconv.FormatUint(uint64(q.ContextID), 10) {
		return nil, q
	}
	q.ContextID = contextID
	return q, nil
}

// drop is the question that was kept for a pass that never came; nil if there is
// none.
func (r *redirects) drop() *decide.Question {
	q := r.kept
	r.kept = nil
	return q
}
