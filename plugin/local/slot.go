package local

// slotVersion is the first byte of every slot; entries follow it. A change of
// the format changes it: after an upgrade the slots of the version before are
// empty to the new one.
const slotVersion = 2

// entriesOf returns the entries in a slot's bytes.
func entriesOf(slot []byte) []byte {
	if len(slot) == 0 || slot[0] != slotVersion {
		return nil
	}
	return slot[1:]
}

// find returns the entry of the fingerprint.
func find(slot []byte, f fingerprint) (e entry, ok bool) {
	rest := entriesOf(slot)
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

// neighbour is an entry that competes for room in its slot.
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

// packer puts slots together in buffers it keeps.
type packer struct {
	slot       []byte
	neighbours []neighbour
}

// pack returns old with the fingerprint's entry replaced by fresh (none if it
// is empty), without the entries that have expired, and without the lightest
// ones if the rest would take more than limit bytes; these it counts. The result
// is valid until the next call.
func (p *packer) pack(old []byte, f fingerprint, fresh []byte, limit int, nowMicros int64) (slot []byte, evicted int) {
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
	p.slot = append(append(p.slot[:0], slotVersion), fresh...)
	for i := range p.neighbours {
		p.slot = append(p.slot, p.neighbours[i].entry...)
	}
	return p.slot, evicted
}

// room is how many of a slot's bytes an entry counts for. One that fits no slot
// counts for half of one, or every other identity of its slot would drive it out.
func room(e entry, limit int) int {
	if len(e) >= limit {
		return limit / 2
	}
	return len(e)
}

// collect finds the neighbours of the fingerprint's entry that have not
// expired, and returns the room they take.
func (p *packer) collect(slot []byte, f fingerprint, limit int, nowMicros int64) (taken int) {
	p.neighbours = p.neighbours[:0]
	rest := entriesOf(slot)
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
