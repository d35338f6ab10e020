// Package decide is the life of a request inside Sluice: the questions about it, the stores that
// answer, the verdict, and the charges.
//
// A Question holds one Check for each rule that applies. A Check has three parts: Ask, what the
// rule asks for; Said, what a store says of it; Charged, what it has charged. request.go is the way
// of a request from top to bottom: Stores asks its layers, limits of 0, leases, the memory of
// rejections, Redis, the embedded store. A layer owns its state, sees one Check, and answers with an
// algo.Ruling, which becomes the Check's answer in one place. When every check has its answer, or
// will get none, Verdict says what to do with the request, and Stores updates the stores: if one
// check rejects, it gives back the charges of the others.
//
// To add a feature: a type in a file of its own, a field of features, and a case in each of the five
// moments of features.go that it matters to: before Redis is asked, as it is asked, when it has
// replied, when the request is concluded, and when it has ended.
//
// Three things hold whatever happens to a request:
//   - It leaves each State by the one table of transitions in state.go.
//   - The charge of a check is a Receipt, which is given back at most once.
//   - A client that leaves changes nothing for other clients: the Question lives on
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
