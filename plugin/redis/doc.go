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
// Two tables say what happens, and tests print both: table has the action for each outcome of each
// command, and policies says how the Conn treats background commands, for which no request waits.
//
//	conn.go           the calls of a worker: Begin, Add, Flush, Refund, Received, Tick and so on
//	host.go           what a Conn needs of the world around it, and tells it
//	link.go           how bytes come and go on the stream
//	command.go        one command, of any kind: checks, changes of charges, slots
//	script.go         a rule's scripts, and the keys of its counters
//	outcome.go        the table of outcomes, and what most actions do
//	outbox.go         background commands that wait, and their policies
//	pipeline.go       commands whose replies have not come, and the requests that they belong to
//	reply.go          what a reply says has become of a command; Redis' time
//	timeout.go        for how long a command could have been answered
//	stream.go         the stream: opened on demand, lost, stalled, at rest
//	second_stream.go  streams in place of old ones, and of lost ones
//	breaker.go        when to stop asking, and which key to probe
//	health.go         the breaker at work, why Redis does not decide, and what the log says
//	startup_check.go  what a worker says about Redis once, with its first request
//	server_stats.go   how the server itself is: memory, evictions, keys
//
// testdata has what a Conn does as text: a line says what happens, and what follows.
//
// A Conn is used by one Envoy worker and is not safe for concurrent use. Time is
// always an argument: microseconds of a monotonic clock.
package redis
