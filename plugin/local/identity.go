package local

import "github.com/sluiceproxy/sluice/algo"

// maxRuns is the most entries of a sliding_window_log that are kept of one
// identity: it is 2 to 4 KB.
//
// Bound: entries of a `sliding_window_log` of one identity. Beyond it, neighbours become one, which
// leaves with the later. Protects the room of other identities.
const maxRuns = 512

// maxOthersBytes bounds identity.others, in bytes: beyond it, those charged longest
// ago are dropped. Only a configuration with dozens of tiers, or changed dozens
// of times within a window, has so many.
//
// Bound: bytes of an identity's other tiers. Beyond it, those charged longest ago are dropped.
// Protects the room of other identities.
const maxOthersBytes = 1024

// identity is one identity's entry taken apart, in buffers that are kept from
// call to call.
type identity struct {
	fingerprint fingerprint
	atMicros    int64 // the time to decide at, see load
	consumed    byte
	holder      int64        // what this worker's slots are under
	held        int64        // how many it holds
	states      []algo.State // one for each limit of the plan
	buffers     []algo.State // where states live: one for each limit of the longest plan

	// The penalty's state, where the plan has one and it is obeyed; else nil.
	penalty      *algo.Penalty
	penaltyState algo.State

	// others are the records of limits that the plan does not have, ready to
	// be written again: those of the identity's other tiers, or of the
	// configuration before or after a reload. They stay until they expire, or a
	// client that can choose its tier would start afresh at each change.
	others             []byte
	othersExpireMicros int64
	other              algo.State // scratch

	state   []byte // one state on the wire
	records []byte // all of them
	raw     []byte // the whole entry
}

// load finds the identity's entry in a page and reads its states; found says
// whether there is one. What cannot be read, or is missing, is an empty state.
//
// Each worker reads the clock for itself, some time before it gets here, so an
// entry may have been written a little later than now. For one identity time
// then stands still: it is decided at the time the entry was written. Else the
// late one of two workers would bring a window back that the other has ended. A
// clock that was set back by graceMicros or more is believed.
func (id *identity) load(p *algo.Plan, page []byte, nowMicros int64, penalty *algo.Penalty) (found bool) {
	limits := p.Limits()
	for len(id.buffers) < len(limits) {
		id.buffers = append(id.buffers, nil)
	}
	id.states = id.buffers[:len(limits)]
	for i := range id.states {
		id.states[i] = id.states[i][:0]
	}
	id.others, id.othersExpireMicros = id.others[:0], 0
	id.penalty, id.penaltyState = penalty, id.penaltyState[:0]
	id.atMicros, id.consumed = nowMicros, 0

	e, rest, found := nextEntry(entriesOf(page))
	for found && !e.is(id.fingerprint) {
		e, rest, found = nextEntry(rest)
	}
	if !found {
		return false
	}
	written := e.writtenMicros()
	if written-nowMicros < graceMicros {
		id.atMicros = max(nowMicros, written)
	}
	id.consumed = e.consumed()
	r := e.records()
next:
	for {
		rec, ok := r.record(e)
		if !ok {
			return true
		}
		for i := range limits {
			if limits[i].ID() == rec.id {
				id.states[i] = readState(id.states[i], rec.state, written, rec.expiresMicros)
				continue next
			}
		}
		if penalty != nil && rec.id == algo.PenaltyID() {
			id.penaltyState = readState(id.penaltyState, rec.state, written, rec.expiresMicros)
		} else if len(id.others) < maxOthersBytes && !expired(rec.expiresMicros, id.atMicros) {
			// It will be in an entry that is written at another time.
			id.other = readState(id.other, rec.state, written, rec.expiresMicros)
			id.state = appendState(id.state[:0], id.other, id.atMicros, rec.expiresMicros)
			rec.state = id.state
			id.others = appendRecord(id.others, rec, id.atMicros, 0)
			id.othersExpireMicros = max(id.othersExpireMicros, rec.expiresMicros)
		}
	}
}

// encode returns the identity as an entry, empty if there is nothing left to
// remember. An entry longer than limit bytes has its logs made coarser until
// it fits; if it still does not, because the rule has very many limits, it is
// returned as it is. The result is valid until the next call.
func (id *identity) encode(p *algo.Plan, limit int) []byte {
	limits := p.Limits()
	for runs := maxRuns; ; runs /= 2 {
		entryExpires := id.othersExpireMicros
		for i := range limits {
			id.states[i] = limits[i].Compact(id.states[i], runs)
			entryExpires = max(entryExpires, p.ExpiresAtMicros(i, id.states[i]))
		}
		if id.penalty != nil {
			entryExpires = max(entryExpires, id.penalty.ExpiresAtMicros(id.penaltyState))
		}
		id.records = id.records[:0]
		for i, st := range id.states {
			if len(st) > 0 {
				id.addRecord(limits[i].ID(), st, p.ExpiresAtMicros(i, st), entryExpires)
			}
		}
		if len(id.penaltyState) > 0 {
			id.addRecord(algo.PenaltyID(), id.penaltyState, id.penalty.ExpiresAtMicros(id.penaltyState), entryExpires)
		}
		id.records = append(id.records, id.others...)
		if len(id.records) == 0 {
			return nil
		}
		id.raw = appendEntry(id.raw[:0], id.fingerprint, id.atMicros, entryExpires, id.consumed, id.records)
		if len(id.raw) <= limit || runs <= 2 {
			return id.raw
		}
	}
}

// addRecord adds a state to the records.
func (id *identity) addRecord(of algo.ID, st algo.State, expiresMicros, entryExpiresMicros int64) {
	id.state = appendState(id.state[:0], st, id.atMicros, expiresMicros)
	id.records = appendRecord(id.records, record{of, expiresMicros, id.state}, id.atMicros, entryExpiresMicros)
}
