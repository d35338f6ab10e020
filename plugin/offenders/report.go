package offenders

import (
	"bytes"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// AppendReport appends the counts of some seconds as one line of JSON:
//
//	{"event":"top_offenders","seconds":60,"rejections":12,"offenders":[
//	  {"rule":"per-user","identity":"203.0.113.7","rejections":9,"error":0}, ...]}
//
// Offenders are in the order of Top; identities are written as in Redis keys, and
// nothing that a client has sent does anything to a terminal.
func (s *Sketch) AppendReport(dst []byte, seconds int64) []byte {
	dst = append(dst, `{"event":"top_offenders","seconds":`...)
	dst = strconv.AppendInt(dst, seconds, 10)
	dst = append(dst, `,"rejections":`...)
	dst = strconv.AppendInt(dst, s.total, 10)
	dst = append(dst, `,"offenders":[`...)
	first := true
	for o := range s.Top {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		_, identity, _ := bytes.Cut(o.Tag, []byte("|"))
		dst = append(dst, `{"rule":`...)
		dst = jsontext.AppendString(dst, o.Rule)
		dst = append(dst, `,"identity":`...)
		dst = jsontext.AppendString(dst, text.View(identity))
		dst = append(dst, `,"rejections":`...)
		dst = strconv.AppendInt(dst, o.Rejections, 10)
		dst = append(dst, `,"error":`...)
		dst = strconv.AppendInt(dst, o.Error, 10)
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}
