// Package decide is the life of a request inside Sluice: what is asked about it,
// who answers, what follows from the answers, and what it has charged.
//
// A Question holds one Check for each rule that applies. A Check has three parts: Ask, what the
// rule asks for; Said, what a store says of it; Charged, what it has charged. Stores asks its
// layers, in the order of ask.go: limits of 0, leases, the memory of rejections, Redis, the
// embedded store. A layer owns its state, sees one Check, and says what it thinks of it as an
// algo.Ruling, which becomes the Check's answer in one place. When every check has its answer,
// or will get none, Verdict says what to do with the request, and Stores carries out what that
// means for the stores: what the other checks charged is given back when one rejects.
//
// To add a layer that answers: a type in a file of its own, a field of Stores, and its
// place in the order of ask.go.
//
// Three things hold whatever happens to a request:
//   - It leaves each State by the one table of transitions in state.go.
//   - What a check has charged is a Receipt, which is given back at most once.
//   - A client that leaves changes nothing for anybody else: the Question lives on
//     until its last reply has come, and is concluded like any other.
//
// The package knows neither Envoy nor a clock. Time is an argument, read once in
// each callback of Envoy's.
package decide

// Time is the moment of one callback.
type Time struct {
	// SteadyMicros is a clock that never goes back: timeouts, leases, the memory of
	// rejections and queues go by it.
	SteadyMicros int64
	// UnixMicros is the wall clock. Only the embedded store decides by it, and until
	// Redis has told its time it is the guess of that; it is 0 where neither needs it.
	UnixMicros int64
}
