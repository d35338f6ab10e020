// Package answer builds what a client sees of its limits: the rate limit
// headers, the 429 and the 503, and the outcome that access logs show. It is
// pure: decisions go in, header fields and bytes come out.
//
// A Writer is made once from the configuration. Its scratch space is reused, so
// that in steady state an answer allocates nothing; what it returned is valid
// until its next use. Refusals has one of its own, and keeps the last answer to a request that was
// refused.
//
// # Headers
//
// X-RateLimit-Limit, -Remaining and -Reset show the limit nearest to
// exhaustion: the smallest remaining/capacity, compared exactly; of equals the
// first in rule order. On a rejection only the rejecting limits count, and of
// equals the one with the longest wait, which Retry-After shows too.
//
// RateLimit-Policy and RateLimit follow draft-ietf-httpapi-ratelimit-headers-10
// and RFC 9651: one list member for each limit, in rule order. A policy name is
// a String: quotes and backslashes are escaped, and bytes that a String cannot
// hold are percent-encoded.
//
// Seconds are rounded up. Retry-After is at least 1, and is left out when one of
// the rejecting limits can never admit the request.
//
// # Rejections
//
// The default 429 is application/problem+json (RFC 9457). A configured response
// replaces its status, content type and body, each where it is given, and adds
// its headers. The 503 of a failure is never replaced.
//
// gRPC requests are those that Envoy takes for gRPC. Envoy turns the reply into
// a trailers-only response: the body becomes grpc-message, so it is one plain
// sentence for them, also when a response is configured.
package answer
