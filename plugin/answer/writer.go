package answer

import (
	"math/rand/v2"
	"strconv"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Writer builds answers for one configuration. It must not be used by two
// requests at once.
type Writer struct {
	headers  config.Headers
	response *config.Response // nil: the default

	envoyRateLimited bool
	jitterPercent    int64
	random           rand.PCG

	buf    []byte
	fields [][2]string
}

// New prepares a Writer. The configuration must not change afterwards. The seed, different in
// each worker, is for the jitter of Retry-After.
func New(cfg *config.Config, seed uint64) *Writer {
	return &Writer{
		headers: cfg.Headers, response: cfg.Response, envoyRateLimited: cfg.EnvoyRateLimited,
		jitterPercent: cfg.RetryJitterPercent, random: *rand.NewPCG(seed, 0),
	}
}

// Upstream has the limit headers of the upstream's own response.
type Upstream struct {
	// XRateLimit is whether it has X-RateLimit-Limit, and keeps all of these headers.
	XRateLimit bool
	// Limit and Policy are its RateLimit and, if it has that one, its RateLimit-Policy.
	Policy, Limit string
}

// Shows reports which families of limit headers responses carry.
func (w *Writer) Shows() (xRateLimit, draft bool) { return w.headers.XRateLimit, w.headers.Draft }

// Headers are the headers of a response that was let through: names in lower
// case, each once, to replace what the upstream sent. limits are in rule order;
// with none that clients see there are no headers. nowMicros is the Unix time of the decisions.
//
// An upstream that rejected the request by limits of its own, as told by up, keeps
// its X-RateLimit headers, and its lists come first.
func (w *Writer) Headers(limits []Limit, nowMicros int64, up Upstream) [][2]string {
	w.reset()
	w.addLimits(limits, nowMicros, false, 0, up)
	return w.fields
}

func (w *Writer) reset() {
	w.buf, w.fields = w.buf[:0], w.fields[:0]
}

func (w *Writer) addLimits(limits []Limit, nowMicros int64, rejected bool, retrySeconds int64, up Upstream) {
	if w.headers.XRateLimit && !up.XRateLimit {
		if l := nearest(limits, rejected); l != nil {
			w.addXRateLimit(l, nowMicros)
		}
	}
	if w.headers.Draft {
		w.addDraft(limits, nowMicros, retrySeconds, up)
	}
}

func (w *Writer) addXRateLimit(l *Limit, nowMicros int64) {
	reset := l.Decision.ResetAfterMicros
	if w.headers.ResetUnix {
		reset += nowMicros
	}
	w.addInt("x-ratelimit-limit", l.capacity())
	w.addInt("x-ratelimit-remaining", l.Decision.Remaining)
	w.addInt("x-ratelimit-reset", seconds(reset))
}

func (w *Writer) addDraft(limits []Limit, nowMicros, retrySeconds int64, up Upstream) {
	if nearest(limits, false) == nil { // clients see none
		return
	}
	start := w.join(up.Policy)
	separate := false
	for i := range limits {
		l := &limits[i]
		if l.Label.silent {
			continue
		}
		separate = w.separate(separate)
		if l.Sized != nil {
			w.buf = appendMember(w.buf, l.Label.item, l.Label.unit, l.Sized, l.restoreMicros())
		} else {
			w.buf = append(w.buf, l.Label.member...)
		}
	}
	w.addFrom("ratelimit-policy", start)

	start = w.join(up.Limit)
	separate = false
	for i := range limits {
		l := &limits[i]
		if l.Label.silent {
			continue
		}
		separate = w.separate(separate)
		w.buf = append(w.buf, l.Label.item...)
		w.buf = strconv.AppendInt(append(w.buf, ";r="...), l.Decision.Remaining, 10)
		if t := l.effectiveSeconds(nowMicros, retrySeconds); t > 0 {
			w.buf = strconv.AppendInt(append(w.buf, ";t="...), t, 10)
		}
	}
	w.addFrom("ratelimit", start)
}

// join begins a list with the members that it has already, and returns where.
func (w *Writer) join(members string) (start int) {
	start = len(w.buf)
	if members != "" {
		w.buf = append(append(w.buf, members...), ", "...)
	}
	return start
}

// separate writes the separator before a member of a list that is not its first.
func (w *Writer) separate(separate bool) bool {
	if separate {
		w.buf = append(w.buf, ", "...)
	}
	return true
}

// addInt adds a header with a number.
//
//go:inline
func (w *Writer) addInt(name string, value int64) {
	start := len(w.buf)
	w.buf = strconv.AppendInt(w.buf, value, 10)
	w.addFrom(name, start)
}

// addFrom adds a header whose value is buf from start on.
//
//go:inline
func (w *Writer) addFrom(name string, start int) {
	w.add(name, text.View(w.buf[start:]))
}

//go:inline
func (w *Writer) add(name, value string) {
	w.fields = append(w.fields, [2]string{name, value})
}

// nearest is, of the limits that clients see, the one with the smallest remaining/capacity, the first of
// equals. Of a rejection only the rejecting limits count, and of equals the one
// with the longest wait. It is nil if no limit counts.
func nearest(limits []Limit, rejected bool) *Limit {
	var best *Limit
	for i := range limits {
		l := &limits[i]
		if rejected && l.Decision.Allowed || l.Label.silent {
			continue
		}
		if best == nil {
			best = l
			continue
		}
		a := l.Decision.Remaining * max(1, best.capacity()) // at most 1e9 * 1e9
		b := best.Decision.Remaining * max(1, l.capacity())
		if a < b || a == b && longer(l.Decision.RetryAfterMicros, best.Decision.RetryAfterMicros) {
			best = l
		}
	}
	return best
}

// longer compares two waits; algo.Never is the longest.
func longer(a, b int64) bool {
	return b != algo.Never && (a == algo.Never || a > b)
}
