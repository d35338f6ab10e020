package slots

// places is in how many steps a wheel goes round.
const places = 16

// wheel says when the identities of one limit set are looked at: one place after
// the other, each once in a fifth of the ttl.
type wheel struct {
	places     [places][]*Identity
	count      int
	next       int   // the place that is looked at next
	hurried    int   // how many places are to be looked at in a hurry
	dueMicros  int64 // when; nothing is due while count is 0
	stepMicros int64
	oldMicros  int64 // slots that are younger are renewed the next time round
}

// placeOf is an identity's place. The lower bits of its hash choose the bucket.
func (w *wheel) placeOf(id *Identity) *[]*Identity { return &w.places[id.hash>>32%places] }

// Portion is how many slots a Renew has renewed at most. It keeps a worker from its
// requests for a fraction of a millisecond, however many slots there are.
//
// Bound: slots renewed in one go. Beyond it, the rest follows after a pause. Protects the worker
// from standing still.
const Portion = 512

// Renew has the slots renewed that are due, or a portion of them: the rest follows in
// a moment. A worker that stood still for more than one round makes up for one.
func (b *Book) Renew(nowMicros int64, r Renewer) {
	b.left = Portion
	hurries := false // a round that is not over
	for i := range b.wheels {
		w := b.wheels[(b.first+i)%len(b.wheels)]
		if w == nil {
			continue
		}
		w.dueMicros = max(w.dueMicros, nowMicros-places*w.stepMicros)
		if w.hurried > 0 {
			w.dueMicros = min(w.dueMicros, nowMicros)
		}
		for w.count > 0 && b.left > 0 && w.dueMicros <= nowMicros {
			for _, id := range w.places[w.next] {
				if b.renew(id, w.oldMicros, nowMicros, r); b.left == 0 {
					break // some slots of this place may be due still
				}
			}
			if b.left > 0 {
				w.next = (w.next + 1) % places
				w.dueMicros += w.stepMicros
				w.hurried = max(w.hurried-1, 0)
			}
		}
		hurries = hurries || w.count > 0 && w.hurried > 0
	}
	b.first = (b.first + 1) % len(b.wheels) // no set waits for the others
	b.resumeMicros = nowMicros
	if b.left == 0 || hurries {
		b.resumeMicros += pauseMicros
	}
}

// renew has those slots of an identity renewed that are old enough, or may be lost,
// as many as are left of the portion.
func (b *Book) renew(id *Identity, oldMicros, nowMicros int64, r Renewer) {
	b.due = b.due[:0]
	for _, s := range id.slots {
		if s.hurry != b.hurry || nowMicros-s.freshMicros >= oldMicros {
			s.hurry, s.freshMicros = b.hurry, nowMicros
			b.due = append(b.due, s)
			if b.left--; b.left == 0 {
				break
			}
		}
	}
	if len(b.due) > 0 {
		r.RenewSlots(id, b.due)
		clear(b.due)
	}
}

// pauseMicros is how far apart portions are, and the steps of a hurried round.
//
// Bound: us between two such portions. Below it, the rest waits. Protects requests between them.
const pauseMicros = 10_000

// Hurry has all slots renewed soon: the store may have lost them.
func (b *Book) Hurry() {
	b.hurry++
	for _, w := range b.wheels {
		if w != nil && w.count > 0 {
			w.hurried = places
		}
	}
}

// NextMicros is the time until Renew has something to do, at least 1; 0 if nothing is
// held.
func (b *Book) NextMicros(nowMicros int64) (next int64) {
	for _, w := range b.wheels {
		if w == nil || w.count == 0 {
			continue
		}
		due := w.dueMicros
		if w.hurried > 0 {
			due = min(due, nowMicros)
		}
		due = max(1, max(due, b.resumeMicros)-nowMicros)
		if next == 0 || due < next {
			next = due
		}
	}
	return next
}

// Due reports whether Renew has something to do.
func (b *Book) Due(nowMicros int64) bool {
	if nowMicros < b.resumeMicros {
		return false
	}
	for _, w := range b.wheels {
		if w != nil && w.count > 0 && (w.hurried > 0 || w.dueMicros <= nowMicros) {
			return true
		}
	}
	return false
}
