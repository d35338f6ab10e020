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

// find returns the entry of the fingerprint.
func find(page []byte, f fingerprint) (e entry, ok bool) {
	rest := entriesOf(page)
	for {
		e, rest, ok = nextEntry(rest)
		if !ok || e.is(f) {
			return e, ok
		}
	}
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
	weight float64
}

// lighter reports whether to evict n before m: the one that gives away less goes
// first, and of equals the one written earlier.
func (n *neighbour) lighter(m *neighbour) bool {
	if n.weight != m.weight {
		return n.weight < m.weight
	}
	return n.writtenMicros() < m.writtenMicros()
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
	taken := 1 + room(fresh, limit) + p.collect(old, f, limit, nowMicros)
	for taken > limit && len(p.neighbours) > 0 {
		i := p.lightest()
		taken -= room(p.neighbours[i].entry, limit)
		if p.neighbours[i].expiresMicros() > nowMicros {
			evicted++
		}
		p.neighbours[i] = p.neighbours[len(p.neighbours)-1]
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

// collect finds the neighbours of the fingerprint's entry that have not
// expired, and returns the room they take.
func (p *packer) collect(page []byte, f fingerprint, limit int, nowMicros int64) (taken int) {
	p.neighbours = p.neighbours[:0]
	rest := entriesOf(page)
	for {
		e, after, ok := nextEntry(rest)
		if !ok {
			return taken
		}
		rest = after
		if expired(e.expiresMicros(), nowMicros) || e.is(f) {
			continue
		}
		p.neighbours = append(p.neighbours, neighbour{e, e.weight(nowMicros)})
		taken += room(e, limit)
	}
}

func (p *packer) lightest() int {
	lightest := 0
	for i := range p.neighbours {
		if p.neighbours[i].lighter(&p.neighbours[lightest]) {
			lightest = i
		}
	}
	return lightest
}
