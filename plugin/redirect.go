package main

import (
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/decide"
)

// redirects recognizes the passes of a request that Envoy redirects internally: see
// decide/redirect.go. Filter state proves that they are one request, as no client can set it;
// x-envoy-original-url proves nothing.
type redirects struct {
	host host
	name string // of the filter state
}

// newRedirects declares the filter state, which has to outlive a pass. Envoy takes
// declarations while a configuration is loaded. Each configuration has a name of
// its own, so that two of them in one chain keep out of each other's way.
func newRedirects(h host, pluginID uint32) *redirects {
	r := &redirects{host: h, name: "sluice.redirected." + strconv.FormatUint(uint64(pluginID), 10)}
	h.foreign(pluginID, "declare_property", declaration(r.name))
	return r
}

// declaration is an envoy.source.extensions.common.wasm.DeclarePropertyArguments
// message: {name, type: String, span: DownstreamRequest}.
func declaration(name string) []byte {
	return append(appendField(nil, 1, name), 3<<3, 1, 5<<3, 1)
}

// follows reports whether another pass follows a request that passed, and whose stream
// ends without a response.
func (r *redirects) follows(q *decide.Question) bool {
	details, _ := r.host.property(q.ContextID, "response\x00code_details")
	return string(details) == "internal_redirect"
}

// mark marks a request whose next pass follows.
func (r *redirects) mark(q *decide.Question) {
	r.host.setProperty(q.ContextID, r.name, strconv.FormatUint(uint64(q.ContextID), 10))
}

// marks reports whether a request that begins has the mark of one that was redirected.
func (r *redirects) marks(contextID, redirectedID uint32) bool {
	mark, _ := r.host.property(contextID, r.name)
	return string(mark) == strconv.FormatUint(uint64(redirectedID), 10)
}
