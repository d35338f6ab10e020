package answer

import (
	"cmp"
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Label is one limit as clients see it, with all that never changes prepared.
type Label struct {
	Name     string
	Capacity int64

	limit *algo.Limit // as configured
	slots bool        // held at a moment: no time restores them
	// restoreMicros is the time in which the capacity is restored.
	restoreMicros int64
	silent        bool   // no client sees it
	unit          string // what it counts
	item          string // the name as an RFC 9651 String
	member        string // the whole member of RateLimit-Policy
	json          string // the name inside a JSON string, without quotes
}

// Limit is one applying limit of an enforced rule, and what it decided.
type Limit struct {
	Label    *Label
	Decision algo.Decision
	// Sized is the limit with the size that came with the request; nil if none did.
	Sized *algo.Limit
	// Values are those of the limit's "per", as in keys; empty without.
	Values []byte
	// Blocked is whether a block rejects in the limit's place, which is not violated.
	Blocked bool
}

// NewLabel prepares a limit. No client sees those of a silent rule.
func NewLabel(l *config.Limit, silent bool) Label {
	// A String of RFC 9651, section 3.3.3. Bytes that it cannot hold are percent-encoded.
	quoted := []byte{'"'}
	for i := range len(l.Name) {
		switch c := l.Name[i]; {
		case c == '"' || c == '\\':
			quoted = append(quoted, '\\', c)
		case c < ' ' || c > '~':
			quoted = text.AppendEscape(quoted, c)
		default:
			quoted = append(quoted, c)
		}
	}
	item, json := string(append(quoted, '"')), jsontext.AppendString(nil, l.Name)
	unit := cmp.Or(l.Unit, requests)
	if !l.Algorithm.HasWindow() {
		unit = "concurrent-requests"
	}
	return Label{
		Name: l.Name, Capacity: l.Capacity(),
		limit: &l.Limit, slots: !l.Algorithm.HasWindow(), restoreMicros: l.RestoreMicros(),
		silent: silent, unit: unit,
		item: item, member: string(appendMember(nil, item, unit, &l.Limit, l.RestoreMicros())),
		json: string(json[1 : len(json)-1]),
	}
}

const requests = "requests"

// appendMember appends a limit's member of RateLimit-Policy. Its capacity is restored
// in so many microseconds.
func appendMember(dst []byte, item, unit string, l *algo.Limit, restoreMicros int64) []byte {
	dst = append(dst, item...)
	dst = strconv.AppendInt(append(dst, ";q="...), l.Room(), 10)
	if l.Algorithm.HasWindow() {
		dst = strconv.AppendInt(append(dst, ";w="...), max(1, seconds(restoreMicros)), 10)
	}
	if unit == requests { // the default of the field
		return dst
	}
	dst = append(append(dst, `;qu="`...), unit...)
	return append(dst, '"')
}

// restoreMicros is the time in which the limit's capacity is restored: that of a calendar,
// which is always sized, is as long as the window that the decision is about.
func (l *Limit) restoreMicros() int64 {
	switch d := &l.Decision; {
	case l.Sized == nil:
		return l.Label.restoreMicros
	case d.EndsMicros > 0:
		return d.EndsMicros - d.BeginsMicros
	}
	return l.Sized.RestoreRoomMicros()
}

// effectiveSeconds is "t" of the RateLimit field, with the Retry-After of the same answer, if it has
// one. It is 0 where there is none: of slots, of a limit of 0 and of a block without end.
func (l *Limit) effectiveSeconds(atMicros, retrySeconds int64) int64 {
	d := &l.Decision
	switch {
	case l.Blocked:
		return waitSeconds(d.RetryAfterMicros)
	case l.Label.slots || l.capacity() == 0:
		return 0
	case d.RetryAfterMicros == 0:
		decided := l.Label.limit
		if l.Sized != nil {
			decided = l.Sized
		}
		return max(1, seconds(decided.EffectiveWindowMicros(d, atMicros)))
	}
	wait := d.RetryAfterMicros
	if wait == algo.Never {
		wait = d.ResetAfterMicros
	}
	t := min(seconds(wait), seconds(l.restoreMicros()))
	if retrySeconds > 0 {
		t = min(t, retrySeconds)
	}
	return max(1, t)
}

// capacity is the most that the limit admits at once.
func (l *Limit) capacity() int64 {
	if l.Sized != nil {
		return l.Sized.Room()
	}
	return l.Label.Capacity
}

// seconds rounds up to whole seconds.
func seconds(micros int64) int64 {
	s := micros / 1e6
	if micros%1e6 > 0 {
		s++
	}
	return s
}
