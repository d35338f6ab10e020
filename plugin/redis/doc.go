// Package redis is one worker's connection to Redis: rule checks go out
// pipelined over a single byte stream, and the replies are matched to them
// first-in first-out, as RESP guarantees.
//
// The package holds everything that can go wrong between a request and its
// decision: timeouts, lost and stalled streams, error replies, scripts that
// Redis does not know, too many waiting requests, and the breaker that keeps
// requests from waiting for a Redis that does not answer. It never decides what
// a failure means for a request; a Waiter is told the Cause and applies the
// failure mode.
//
// A Conn is used by one Envoy worker and is not safe for concurrent use. Time is
// always an argument: microseconds of a monotonic clock.
package redis
