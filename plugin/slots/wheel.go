package slots

// places is in how many steps a wheel goes round.
const places = 16

// wheel says when the identities of one list of limits are looked at: one place after
// the other, each once in a fifth of the ttl.
type wheel struct {
	places     [places][]*Identity
	count      int
	next       int   // the place that is looked at next
	dueMicros  int64 // when; nothing is due while count is 0
	stepMicros int64
	oldMicros  int64 // slots that are younger are renewed the next time round
}

func newWheel(ttlMicros int64) *wheel {
	return &wheel{stepMicros: ttlMicros / 5 / places, oldMicros: ttlMicros / 12}
}

// placeOf is an identity's place. The lower bits of its hash choose the bucket.
func placeOf(id *Identity) uint64 { return id.hash >> 32 % places }

func (w *wheel) add(id *Identity, nowMicros int64) {
	if w.count == 0 {
		w.dueMicros = nowMicros + w.stepMicros
	}
	w.count++
	place := &w.places[placeOf(id)]
	id.index = len(*place)
	*place = append(*place, id)
}

func (w *wheel) remove(id *Identity) {
	w.count--
	place := &w.places[placeOf(id)]
	last := len(*place) - 1
	moved := (*place)[last]
	(*place)[id.index], moved.index = moved, id.index
	(*place)[last] = nil
	*place = (*place)[:last]
}

// turn returns the place that is to be looked at next, if it is time.
func (w *wheel) turn(nowMicros int64) (place []*Identity, due bool) {
	if w.count == 0 || nowMicros < w.dueMicros {
		return nil, false
	}
	place = w.places[w.next]
	w.next = (w.next + 1) % places
	w.dueMicros += w.stepMicros
	return place, true
}

// Renew has the slots renewed that are due. A worker that stood still for more than one
// round makes up for one.
func (b *Book) Renew(nowMicros int64, r Renewer) {
	hurried := b.hurried > 0
	if hurried {
		b.hurried--
	}
	for _, w := range b.wheels {
		if w == nil {
			continue
		}
		if hurried && w.count > 0 {
			w.dueMicros = min(w.dueMicros, nowMicros)
		}
		for range places {
			place, due := w.turn(nowMicros)
			if !due {
				break
			}
			for _, id := range place {
				b.renew(id, hurried, w, nowMicros, r)
			}
		}
		w.dueMicros = max(w.dueMicros, nowMicros)
	}
}

// renew has those slots of an identity renewed that are old enough, or all.
func (b *Book) renew(id *Identity, all bool, w *wheel, nowMicros int64, r Renewer) {
	b.due = b.due[:0]
	for _, s := range id.slots {
		if all || nowMicros-s.freshMicros >= w.oldMicros {
			s.freshMicros = nowMicros
			b.due = append(b.due, s)
		}
	}
	if len(b.due) > 0 {
		r.RenewSlots(id, b.due)
		clear(b.due)
	}
}

// hurryMicros is how far apart the steps of a hurried round are.
const hurryMicros = 10_000

// Hurry has all slots renewed soon: the store may have lost them.
func (b *Book) Hurry() {
	if b.size > 0 {
		b.hurried = places
	}
}

// NextMicros is the time until Renew has something to do, at least 1; 0 if nothing is
// held.
func (b *Book) NextMicros(nowMicros int64) (next int64) {
	for _, w := range b.wheels {
		if w == nil || w.count == 0 {
			continue
		}
		due := max(1, w.dueMicros-nowMicros)
		if b.hurried > 0 {
			due = min(due, hurryMicros)
		}
		if next == 0 || due < next {
			next = due
		}
	}
	return next
}

// Due reports whether Renew has something to do.
func (b *Book) Due(nowMicros int64) bool {
	for _, w := range b.wheels {
		if w != nil && w.count > 0 && (b.hurried > 0 || nowMicros >= w.dueMicros) {
			return true
		}
	}
	return false
}
