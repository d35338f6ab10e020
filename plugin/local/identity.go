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
	holder      int64        // what this worker's slots are under, see slots.go
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
	id.reset(len(limits))
	id.atMicros, id.consumed, id.penalty = nowMicros, 0, penalty
	e, found := find(page, id.fingerprint)
	if !found {
		return false
	}
	written := e.writtenMicros()
	if written-nowMicros < graceMicros {
		id.atMicros = max(nowMicros, written)
	}
	id.consumed = e.consumed()
	r := reader{rest: e.records()}
	for {
		rec, ok := r.record(e)
		if !ok {
			return true
		}
		if i := indexOf(limits, rec.id); i >= 0 {
			id.states[i] = readState(id.states[i], rec.state, written, rec.expiresMicros)
		} else if penalty != nil && rec.id == algo.PenaltyID() {
			id.penaltyState = readState(id.penaltyState, rec.state, written, rec.expiresMicros)
		} else if len(id.others) < maxOthersBytes && !expired(rec.expiresMicros, id.atMicros) {
			id.keepOther(rec, written)
		}
	}
}

// keepOther writes a record again, in an entry that is written at another time.
func (id *identity) keepOther(rec record, writtenMicros int64) {
	id.other = readState(id.other, rec.state, writtenMicros, rec.expiresMicros)
	id.state = appendState(id.state[:0], id.other, id.atMicros, rec.expiresMicros)
	rec.state = id.state
	id.others = appendRecord(id.others, rec, id.atMicros, 0)
	id.othersExpireMicros = max(id.othersExpireMicros, rec.expiresMicros)
}

func (id *identity) reset(limits int) {
	for len(id.buffers) < limits {
		id.buffers = append(id.buffers, nil)
	}
	id.states = id.buffers[:limits]
	for i := range id.states {
		id.states[i] = id.states[i][:0]
	}
	id.others, id.othersExpireMicros = id.others[:0], 0
	id.penaltyState = id.penaltyState[:0]
}

// indexOf returns the index of the limit that a state belongs to, or -1.
func indexOf(limits []algo.Limit, id algo.ID) int {
	for i := range limits {
		if limits[i].ID() == id {
			return i
		}
	}
	return -1
}

// encode returns the identity as an entry, empty if there is nothing left to
// remember. An entry longer than limit bytes has its logs made coarser until
// it fits; if it still does not, because the rule has very many limits, it is
// returned as it is. The result is valid until the next call.
func (id *identity) encode(p *algo.Plan, limit int) []byte {
	for runs := maxRuns; ; runs /= 2 {
		id.compact(p.Limits(), runs)
		expires := id.encodeRecords(p)
		if len(id.records) == 0 {
			return nil
		}
		id.raw = appendEntry(id.raw[:0], id.fingerprint, id.atMicros, expires, id.consumed, id.records)
		if len(id.raw) <= limit || runs <= 2 {
			return id.raw
		}
	}
}

// compact shortens the logs among the states to at most runs entries each.
func (id *identity) compact(limits []algo.Limit, runs int) {
	for i := range limits {
		id.states[i] = limits[i].Compact(id.states[i], runs)
	}
}

// encodeRecords makes records of the states, and returns when the last of them
// expires.
func (id *identity) encodeRecords(p *algo.Plan) (expiresMicros int64) {
	limits := p.Limits()
	expiresMicros = id.othersExpireMicros
	for i, st := range id.states {
		expiresMicros = max(expiresMicros, p.ExpiresAtMicros(i, st))
	}
	if id.penalty != nil {
		expiresMicros = max(expiresMicros, id.penalty.ExpiresAtMicros(id.penaltyState))
	}
	id.records = id.records[:0]
	for i, st := range id.states {
		if len(st) == 0 {
			continue
		}
		expires := p.ExpiresAtMicros(i, st)
		id.state = appendState(id.state[:0], st, id.atMicros, expires)
		id.records = appendRecord(id.records, record{limits[i].ID(), expires, id.state}, id.atMicros, expiresMicros)
	}
	if len(id.penaltyState) > 0 {
		expires := id.penalty.ExpiresAtMicros(id.penaltyState)
		id.state = appendState(id.state[:0], id.penaltyState, id.atMicros, expires)
		id.records = appendRecord(id.records, record{algo.PenaltyID(), expires, id.state}, id.atMicros, expiresMicros)
	}
	id.records = append(id.records, id.others...)
	return expiresMicros
}
