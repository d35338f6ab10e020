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
//	charge.go    what a check asks for, and the answer
//	conn.go      the life of a request: Begin, Add, Flush, Received, Tick
//	answer.go    what becomes of each reply
//	retry.go     why a check is sent once more
//	refund.go    refunds and settlements
//	slots.go     gives slots back, and renews them
//	clock.go     a Redis whose scripts may not ask for the time
//	timeout.go   what becomes of a check without a reply
//	stream.go    the stream: opened on demand, lost, stalled, at rest
//	breaker.go   when to stop asking, and whom to probe
//	outage.go    the breaker at work, and what the log says
//	trial.go     what a worker says about Redis before the first request
//
// A Conn is used by one Envoy worker and is not safe for concurrent use. Time is
// always an argument: microseconds of a monotonic clock.
package redis
