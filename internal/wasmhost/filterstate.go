package wasmhost

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// What proxy_set_property sets is filter state of the stream, under a name of its
// own. It lives as long as the plugin has declared, by default as long as the
// filters: an internal redirect has others.

const filterStatePrefix = "wasm."

// filterState is the filter state that a path names: one that the guest has set, or any other with
// "filter_state" in front.
func (s *Stream) filterState(path string) ([]byte, bool) {
	if value, ok := s.FilterState[filterStatePrefix+path]; ok {
		return value, true
	}
	name, ok := strings.CutPrefix(path, "filter_state\x00")
	if !ok {
		return nil, false
	}
	value, ok := s.FilterState[name]
	return value, ok
}

// declareProperty is Envoy's foreign function. In a stream's context it has no
// effect; for a plugin's, a name is declared once.
func (c Caller) declareProperty(arguments []byte) Status {
	name, lasting, ok := parseDeclaration(arguments)
	if !ok {
		return StatusBadArgument
	}
	if c.stream != nil {
		return StatusOK
	}
	if _, again := c.plugin.declared[name]; again {
		return StatusBadArgument
	}
	c.plugin.declared[name] = lasting
	return StatusOK
}

// parseDeclaration reads envoy.source.extensions.common.wasm.DeclarePropertyArguments: name = 1, and
// span = 5, which is 0 for the filter chain, 1 for the request and 2 for the connection.
func parseDeclaration(b []byte) (name string, lasting, ok bool) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return "", false, false
		}
		b = b[n:]
		switch field {
		case 1:
			name, n = protowire.ConsumeString(b)
		case 5:
			var span uint64
			span, n = protowire.ConsumeVarint(b)
			lasting = span != 0
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return "", false, false
		}
		b = b[n:]
	}
	return name, lasting, true
}

// Redirect is an internal redirect: the upstream has answered with a redirection,
// and Envoy follows it. This stream ends, without response callbacks and with the
// headers of the next pass in its log; then the next pass begins. Filter state that
// was declared so passes on.
func (s *Stream) Redirect(status uint64, headers Pairs, endOfStream bool) (next *Stream) {
	p := s.context.plugin
	authority, _ := s.request.headers.Get(":authority")
	path, _ := s.request.headers.Get(":path")
	headers = slices.Concat(headers, Pairs{{"x-envoy-original-url", "http://" + authority + path}})
	s.request.headers, s.response.headers = headers, Response(strconv.FormatUint(status, 10))
	s.Properties["response.code"] = binary.LittleEndian.AppendUint64(nil, status)
	s.Properties["response.code_details"] = []byte("internal_redirect")
	p.streams++ // the request goes on, so that the plugin is still in use
	s.End()
	p.streams--
	next = p.NewStream()
	for path, lasting := range p.declared {
		if value, ok := s.FilterState[filterStatePrefix+path]; ok && lasting {
			next.FilterState[filterStatePrefix+path] = value
		}
	}
	next.RequestHeaders(headers, endOfStream)
	return next
}
