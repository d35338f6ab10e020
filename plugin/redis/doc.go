// Package redis is one worker's connection to Redis: rule checks go out
// pipelined over a single byte stream, and the replies are matched to them
// first-in first-out, as RESP guarantees.
//
// The package holds everything that can go wrong between a check and its
// decision: timeouts, lost and stalled streams, error replies, scripts that
// Redis does not know, too many waiting requests, and the breaker that keeps
// requests from waiting for a Redis that does not answer. Each check fails on
// its own. The package never decides what a failure means for a request: a
// Waiter is told the Cause and applies the failure mode.
//
// Two tables say what happens, and tests print both: fates has the action for each outcome of each
// command, and policies says how the Conn treats errands, for which no request waits.
//
//	conn.go      the calls of a worker: Begin, Add, Flush, Refund, Received, Tick and so on
//	host.go      what a Conn needs of the world around it, and tells it
//	link.go      how bytes come and go on the stream
//	command.go   one command, of any kind
//	check.go, change.go, slots.go   the kinds of commands, and how they are encoded
//	fate.go      the table of outcomes
//	act.go       what each action does
//	checks.go, errand.go   what the actions do with checks and errands
//	outbox.go    errands that wait, and their policies
//	pipeline.go  commands whose replies have not come
//	requests.go  the requests that those belong to
//	reply.go     what a reply says has become of a command
//	clock.go     a Redis whose scripts may not ask for the time
//	timeout.go   for how long a command could have been answered
//	stream.go    the stream: opened on demand, lost, stalled, at rest
//	audition.go  what a stream in place of a lost one has to answer first
//	rotate.go    streams that are replaced as they grow old
//	breaker.go   when to stop asking, and which key to probe
//	health.go    the breaker at work, and what the log says
//	trial.go     what a worker says about Redis before the first request
//	vitals.go    how the server itself is: memory, evictions, keys
//
// A Conn is used by one Envoy worker and is not safe for concurrent use. Time is
// always an argument: microseconds of a monotonic clock.
package redis
