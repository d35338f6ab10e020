package redis

import "strconv"

// health is whether Redis decides, as far as this worker knows: the breaker at work, and
// what the log says.
type health struct {
	host     Host
	observer Observer
	options  *Options
	breaker  breaker

	complaint    complaint
	openError    error  // of the last attempt to open a stream
	reported     string // why Redis does not decide, as logged last; "" if it does
	warned       bool   // a failed request has been logged
	warnedMicros int64  // the last time
}

// failed counts a failure; enough of them open the breaker. Requests in flight
// stay: none waits longer than its timeout, and a stream that works may still
// answer them.
func (h *health) failed(cause Cause, nowMicros int64) {
	if h.breaker.fail(cause, nowMicros) {
		h.open(cause, nowMicros)
	}
}

// open begins a pause, the first of an outage or, after a probe that failed, the next.
func (h *health) open(cause Cause, nowMicros int64) {
	h.breaker.open(nowMicros)
	h.observer.BreakerChanged(Open)
	h.report(cause, nowMicros)
}

// close ends an outage.
func (h *health) close() {
	h.breaker.close()
	h.reported = ""
	h.observer.BreakerChanged(Closed)
	h.host.Info("redis is back: it decides again")
}

// complain keeps an error reply for the log.
func (h *health) complain(command string, text []byte) {
	h.complaint.set(command, text, h.options.Username, h.options.Password)
}

// report logs why Redis does not decide: when the breaker opens, and again when
// a probe finds another reason.
func (h *health) report(cause Cause, nowMicros int64) {
	reason, text := h.why(cause)
	if reason == h.reported {
		return
	}
	h.reported = reason
	pause := (h.breaker.dueMicros - nowMicros + 999) / 1000
	h.host.Warn("redis does not decide: " + cause.String() + ": " + text +
		"; the failure mode applies, next probe in " + strconv.FormatInt(pause, 10) + "ms")
}

// gRPC statuses that a stream through a relay is closed with
// (https://grpc.io/docs/guides/status-codes/): what RBAC refuses, and an unknown path.
const (
	permissionDenied = 7
	unimplemented    = 12
)

// why says for the log what a cause means and what to do about it. Two failures
// of one reason are not told apart.
func (h *health) why(cause Cause) (reason, text string) {
	reason, text = cause.String(), causeTexts[cause].meaning
	switch {
	case cause == ErrorReply:
		reason, text = h.complaint.code(), h.complaint.explain()
	case cause != Unreachable && cause != Lost:
	case h.host.CloseStatus() == permissionDenied:
		reason, text = "refused", "the relay refuses this proxy (does its RBAC, or an AuthorizationPolicy, list this "+
			"proxy's identity?)"
	case h.host.CloseStatus() == unimplemented:
		reason, text = "no route", "no such route at the relay (does the cluster lead to a relay, and to its port?)"
	case cause == Unreachable && h.openError != nil:
		text = h.openError.Error() + ": " + text
	}
	return reason, text
}

// Bound: us between two lines about failures. Below it, failures are counted, not logged. Protects
// the log.
const warnPauseMicros = 60_000_000

// requestFailed counts a request that Redis does not decide. The log has the
// first of them, and one a minute, while the breaker's own lines do not say it.
func (h *health) requestFailed(cause Cause, nowMicros int64) {
	h.observer.RequestFailed(cause)
	if h.breaker.state != Closed || h.warned && nowMicros-h.warnedMicros < warnPauseMicros {
		return
	}
	h.warned, h.warnedMicros = true, nowMicros
	_, text := h.why(cause)
	h.host.Warn(h.name() + " did not decide a request: " + cause.String() + ": " + text +
		"; the failure mode applied (logged at most once a minute)")
}

// name is the cluster in the log. Requests whose routes name none have a connection of their own, which
// has no cluster either.
func (h *health) name() string {
	if h.options.Cluster == "" {
		return "redis"
	}
	return "redis " + strconv.Quote(h.options.Cluster)
}
