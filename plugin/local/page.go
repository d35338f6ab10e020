package local

// pageVersion is the first byte of every page; entries follow it. A change of
// the format changes it: after an upgrade the pages of the version before are
// empty to the new one.
const pageVersion = 2

// entriesOf returns the entries in a page's bytes.
func entriesOf(page []byte) []byte {
	if len(page) == 0 || page[0] != pageVersion {
		return nil
	}
	return page[1:]
}

// graceMicros is how long an expired entry is kept all the same, so that a
// worker whose clock is a little behind that of the others finds it.
//
// Bound: us that an entry outlives its end. Beyond it, the entry is gone, also for a worker whose
// clock is behind. Protects the room of other identities.
const graceMicros = 1_000_000

func expired(expiresMicros, nowMicros int64) bool {
	return nowMicros-expiresMicros >= graceMicros
}

// neighbour is an entry that competes for room in its page.
type neighbour struct {
	entry
	// weight estimates how much of its consumption the identity has not recovered yet, of 255, if
	// it recovers evenly until the entry expires. To drop the entry gives that much away.
	weight float64
}

// packer puts pages together in buffers it keeps.
type packer struct {
	page       []byte
	neighbours []neighbour
}

// pack returns old with the fingerprint's entry replaced by fresh (none if it
// is empty), without the entries that have expired, and without the lightest
// ones if the rest would take more than limit bytes; these it counts. The result
// is valid until the next call.
func (p *packer) pack(old []byte, f fingerprint, fresh []byte, limit int, nowMicros int64) (page []byte, evicted int) {
	taken := 1 + room(fresh, limit)
	p.neighbours = p.neighbours[:0]
	for e, rest, ok := nextEntry(entriesOf(old)); ok; e, rest, ok = nextEntry(rest) {
		expires, lifetime, weight := e.expiresMicros(), e.lifetime(), 0.0
		if expired(expires, nowMicros) || e.is(f) {
			continue
		}
		if left := min(expires-nowMicros, lifetime); left > 0 {
			weight = float64(e.consumed()) * float64(left) / float64(lifetime)
		}
		p.neighbours = append(p.neighbours, neighbour{e, weight})
		taken += room(e, limit)
	}

	for taken > limit && len(p.neighbours) > 0 {
		lightest := 0
		for i := range p.neighbours { // of equals the one written earlier
			n, m := &p.neighbours[i], &p.neighbours[lightest]
			if n.weight < m.weight || n.weight == m.weight && n.writtenMicros() < m.writtenMicros() {
				lightest = i
			}
		}
		taken -= room(p.neighbours[lightest].entry, limit)
		if p.neighbours[lightest].expiresMicros() > nowMicros {
			evicted++
		}
		p.neighbours[lightest] = p.neighbours[len(p.neighbours)-1]
		p.neighbours = p.neighbours[:len(p.neighbours)-1]
	}

	p.page = append(append(p.page[:0], pageVersion), fresh...)
	for i := range p.neighbours {
		p.page = append(p.page, p.neighbours[i].entry...)
	}
	return p.page, evicted
}

// room is how many of a page's bytes an entry counts for. One that fits no page
// counts for half of one, or every other identity of its page would drive it out.
func room(e entry, limit int) int {
	if len(e) >= limit {
		return limit / 2
	}
	return len(e)
}
