package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// kind is the purpose of a command.
type kind uint8

const (
	checking  kind = iota // charges for a request, for which a Waiter waits
	refunding             // gives a charge back
	settling              // makes charges what responses were worth
	releasing             // gives slots back, and nothing else
	renewing              // renews slots

	loggingIn    // AUTH
	selecting    // SELECT
	probing      // the breaker's probe: there is one while it is HalfOpen
	auditioning  // what a stream in place of a lost one has to answer first
	askingServer // INFO server, of the trial
	askingRole   // INFO replication, of the trial
	askingMemory // INFO memory, of the trial or for the Vitals
	askingStats  // INFO stats, for the Vitals
	askingKeys   // INFO keyspace, for the Vitals
	trying       // the trial's script
	abandoned    // a probe or trial that had no reply in time

	kinds

	errands = renewing + 1 // the kinds below it call a rule's scripts
)

// form is which of a rule's scripts a command calls.
type form uint8

const (
	noForm form = iota // its sender has encoded it, and it is never sent again
	checkForm
	changeForm
	releaseForm
	renewForm

	forms
)

// command is one command to Redis, in the pipe until its reply has come, or in the
// outbox. It keeps what it takes to send it again.
type command struct {
	subject
	manner
	kind  kind
	check check
	// change is the corrections of a refund or settlement: for each charge the units to take off
	// every limit or, below 0, to add, and then the charge's time.
	change []int64
	slots  []Slots // of a release or renewal; those that a check may take, or a refund gives back
	blind  bool    // a release of slots that may never have been taken

	waiter   Waiter
	index    int    // which of the request's checks
	question uint64 // which request
	expired  bool   // its Waiter has heard that the timeout is over
	overtook bool   // an errand in front of it was not carried out
	retimed  bool   // sent with the sizes of another time
	remade   bool   // sent as another override makes it

	sentMicros     int64 // when it was first sent
	listenedMicros int64 // the same in listening time
	keptMicros     int64 // listening time for which its request had waited before
	untilMicros    int64 // in the outbox: when it is given up
}

// subject is whose counters a command is about, and at which sizes.
type subject struct {
	script *Script
	tag    []byte
	sizes  []algo.Size // that came with the request; empty: as configured
	values rule.Values // of the limits with "per"; of a release or renewal, its part's id
	nonce  int64       // of the charge
	over   algo.Over   // of an earlier batch
}

// same reports whether two commands are about one identity of one rule, whatever the values
// within it are: they have limits without "per" in common.
func (of *subject) same(other *subject) bool {
	return of.script == other.script && string(of.tag) == string(other.tag)
}

// manner is how a script is called.
type manner struct {
	bySource bool // with EVAL
	byKey    bool // without TIME, see clock.go
}

// appendTo encodes a command that calls a rule's script. This is the one place that
// tells commands apart: all else about a kind is a row of a table.
func (c *command) appendTo(dst []byte) []byte {
	switch fates[c.kind].form {
	case checkForm:
		return c.appendCheck(dst)
	case changeForm:
		return c.appendChange(dst)
	case releaseForm:
		return c.appendRelease(dst)
	case renewForm:
		return c.appendRenewal(dst)
	}
	return dst
}

// copyFrom makes c a copy of another command, in the memory that c has.
func (c *command) copyFrom(from *command) {
	tag, sizes := append(c.tag[:0], from.tag...), append(c.sizes[:0], from.sizes...)
	costs, strikes := append(c.check.costs[:0], from.check.costs...), append(c.check.strikes[:0], from.check.strikes...)
	parts, slots := append(c.change[:0], from.change...), append(c.slots[:0], from.slots...)
	madeFor, values := append(c.check.madeFor[:0], from.check.madeFor...), append(c.values[:0], from.values...)
	*c = *from
	c.tag, c.sizes, c.check.costs, c.check.strikes, c.change, c.slots = tag, sizes, costs, strikes, parts, slots
	c.check.madeFor, c.values = madeFor, values
}

// size is how many charges, or how many requests' slots, an errand is about.
func (c *command) size() int64 {
	if len(c.change) > 0 {
		return int64(len(c.change) / (len(c.script.suffixes) + 1))
	}
	return int64(len(c.slots))
}

// join adds an errand to c, if one call can do both. It reports whether it has. The
// charge of a rule with slots has a nonce of its own, so that two are never one call.
func (c *command) join(other *command) bool {
	if c.blind != other.blind || c.over != other.over || !c.same(&other.subject) {
		return false
	}
	if c.size()+other.size() > policies[c.kind].together {
		return false
	}
	if len(c.change) > 0 && c.script.slots >= 0 || !slices.Equal(c.sizes, other.sizes) {
		return false
	}
	if string(c.values) != string(other.values) {
		return false
	}
	c.change = append(c.change, other.change...)
	c.slots = append(c.slots, other.slots...)
	c.untilMicros = max(c.untilMicros, other.untilMicros)
	return true
}

// forget takes a request's slots out of a command.
func (c *command) forget(nonce int64) {
	for i := range c.slots {
		if c.slots[i].Nonce == nonce {
			c.slots = append(c.slots[:i], c.slots[i+1:]...)
			return
		}
	}
}
