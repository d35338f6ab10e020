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
	dst = strconv.AppendInt(append(dst, `{"event":"top_offenders","seconds":`...), seconds, 10)
	dst = strconv.AppendInt(append(dst, `,"rejections":`...), s.total, 10)
	dst = append(dst, `,"offenders":[`...)
	begin := `{"rule":`
	for o := range s.Top {
		_, identity, _ := bytes.Cut(o.Tag, []byte("|"))
		dst = jsontext.AppendString(append(dst, begin...), o.Rule)
		dst = jsontext.AppendString(append(dst, `,"identity":`...), text.View(identity))
		dst = strconv.AppendInt(append(dst, `,"rejections":`...), o.Rejections, 10)
		dst = strconv.AppendInt(append(dst, `,"error":`...), o.Error, 10)
		dst = append(dst, '}')
		begin = `,{"rule":`
	}
	return append(dst, "]}"...)
}
