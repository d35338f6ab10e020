package answer

import (
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// AppendRejected appends what the filter state wasm.sluice.rejected says of a
// rejection, as JSON: the limit with the longest wait among those of the rule that
// rejects, the identity as it stands in Redis keys, with the values of the limit's "per", and the
// wait in seconds, where waiting helps.
func AppendRejected(dst []byte, limits []Limit, identity string) []byte {
	longest := &limits[0]
	for i := range limits {
		l := &limits[i]
		if longest.Decision.Allowed || !l.Decision.Allowed &&
			longer(l.Decision.RetryAfterMicros, longest.Decision.RetryAfterMicros) {
			longest = l
		}
	}
	dst = append(dst, `{"limit":`...)
	dst = jsontext.AppendString(dst, longest.Label.Name)
	return appendRejected(dst, longest.Decision.RetryAfterMicros, identity, longest.Values)
}

// appendRejected appends what follows the limit.
func appendRejected(dst []byte, wait int64, identity string, values []byte) []byte {
	dst = append(dst, `,"identity":`...)
	dst = jsontext.AppendString(dst, identity)
	if len(values) > 0 {
		dst = append(dst, `,"per":`...)
		dst = jsontext.AppendString(dst, text.View(values))
	}
	if wait != algo.Never {
		dst = append(dst, `,"retry_after":`...)
		dst = strconv.AppendInt(dst, max(1, seconds(wait)), 10)
	}
	return append(dst, '}')
}
