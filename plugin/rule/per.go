package rule

import "bytes"

// Values says whose counters the limits with "per" are about: for each of these limits, in order,
// one byte with the length of its values, and the values as they stand in keys. A limit of length
// 0 does not apply to the request. Values are nil where no limit has "per".
type Values []byte

// Next splits off the values of the next limit with "per"; none if it does not apply.
func (v Values) Next() (values []byte, rest Values) {
	if len(v) == 0 {
		return nil, nil
	}
	end := 1 + int(v[0])
	return v[1:end], v[end:]
}

// HasPer reports whether a limit counts for each value within the identity.
func (l *LimitSet) HasPer() bool { return l.pers != nil }

// IsPer reports whether this limit does.
func (l *LimitSet) IsPer(limit int) bool { return l.pers != nil && l.pers[limit] != nil }

// ValuesOf is the values that a limit counts. applies is false for a limit with "per" that has
// none in this request.
func (l *LimitSet) ValuesOf(v Values, limit int) (values []byte, applies bool) {
	if !l.IsPer(limit) {
		return nil, true
	}
	for i := range limit + 1 {
		if l.pers[i] != nil {
			values, v = v.Next()
		}
	}
	return values, len(values) > 0
}

// One counter is about one part of an identity: the identity, by its tag, or the values of a limit
// with "per". A worker that remembers something of a part names it by the tag, and for such a limit
// a NUL, which no tag has, its PerID and the values.

// AppendPart appends the name of the part that a limit counts.
func (l *LimitSet) AppendPart(dst, tag []byte, limit int, v Values) []byte {
	dst = append(dst, tag...)
	if !l.IsPer(limit) {
		return dst
	}
	values, _ := l.ValuesOf(v, limit)
	dst = append(dst, 0)
	dst = append(dst, l.Limits[limit].PerID...)
	return append(dst, values...)
}

// CutPart splits a part's name: id is a PerID and values, empty for the identity itself.
func CutPart(part []byte) (tag, id []byte) {
	if i := bytes.IndexByte(part, 0); i >= 0 {
		return part[:i], part[i+1:]
	}
	return part, nil
}

// Part is the limits, by index, of one part of the identity: those without "per" are one, and each
// other one is a part of its own. The first limit names the part.
type Part []int

// AppendNamed appends the part's name, see AppendPart; applies is false if the part does not apply
// to a request with these values. A guarantee and its pool apply without values, too: there is
// nothing but the pool then.
func (l *LimitSet) AppendNamed(dst, tag []byte, part Part, v Values) (name []byte, applies bool) {
	if len(part) == 0 { // of a rule without limits, which has terms
		return append(dst, tag...), true
	}
	if _, applies = l.ValuesOf(v, part[0]); !applies && len(part) == 1 {
		return dst, false
	}
	return l.AppendPart(dst, tag, part[0], v), true
}

// makeParts sorts the limits into parts: the rule's own first, then those that may pay for them, as
// the embedded store asks one list after the other.
func (l *LimitSet) makeParts() {
	if own := l.Plan.Own(); own < len(l.Limits) && l.pers != nil {
		l.Parts = l.partsOf(l.partsOf(nil, 0, own), own, len(l.Limits))
		return
	}
	guarantee, pool, pair := l.Plan.Guarantee()
	var whole, remembered Part
	for i := range l.Limits {
		if l.IsPer(i) {
			continue
		}
		whole = append(whole, i)
		if !pair || i != pool {
			remembered = append(remembered, i)
		}
	}
	if pair { // whether the guarantee admits is asked first, see decide
		l.Parts = append(l.Parts, Part{guarantee})
		l.Memories = append(l.Memories, Part{guarantee, pool})
	}
	if whole != nil || len(l.Limits) == 0 {
		l.Parts = append(l.Parts, whole)
	}
	if remembered != nil {
		l.Memories = append(l.Memories, remembered)
	}
	for i := range l.Limits {
		if l.IsPer(i) && (!pair || i != guarantee) {
			l.Parts, l.Memories = append(l.Parts, Part{i}), append(l.Memories, Part{i})
		}
	}
}

// partsOf appends the parts of the limits from one on to another.
func (l *LimitSet) partsOf(parts []Part, from, to int) []Part {
	var whole Part
	for i := from; i < to; i++ {
		if !l.IsPer(i) {
			whole = append(whole, i)
		}
	}
	if whole != nil {
		parts = append(parts, whole)
	}
	for i := from; i < to; i++ {
		if l.IsPer(i) {
			parts = append(parts, Part{i})
		}
	}
	return parts
}

// Pays reports whether limits follow the rule's own that may pay for them.
func (l *LimitSet) Pays() bool { return l.Plan.Own() < len(l.Limits) }

// compilePers compiles the components of the limits with "per".
func (s *Set) compilePers(l *LimitSet) {
	for i := range l.Limits {
		c := &l.Limits[i]
		if len(c.Per) == 0 {
			continue
		}
		if l.pers == nil {
			l.pers = make([][]int, len(l.Limits))
		}
		l.pers[i] = s.compileKey(l.Rule, c.Per)
	}
	l.makeParts()
}

// valuesOf is whom the limits with "per" count, and takes the cost off those that do not apply to
// the request. ok is false if no limit applies.
func (m *Matcher) valuesOf(l *LimitSet, costs []int64) (_ Values, ok bool) {
	begin := len(m.tags)
	for i, columns := range l.pers {
		own := i < l.Plan.Own() // whether the rule applies is a matter of its own limits
		if columns == nil {
			ok = ok || own
			continue
		}
		at := len(m.tags)
		m.tags = append(m.tags, 0)
		if m.appendIdentity(columns) {
			m.tags[at] = byte(len(m.tags) - at - 1) // an identity has at most maxIdentityBytes
			ok = ok || own
		} else {
			costs[i] = 0
		}
	}
	return m.tags[begin:len(m.tags):len(m.tags)], ok
}
