package rule

import (
	"math"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Settle is a compiled config.Settle: what the response makes of a rule's charge. It
// is read twice. AtHeaders takes what response headers say while they pass; Worth
// takes the rest when the stream has ended, and weighs it all.
type Settle struct {
	*config.Settle
	keeps ending // Expr
	cost  ending // the expression that is the true cost
}

// ending is an expression that a response's end gives its value.
type ending struct {
	token *uint32 // nil for none
	// early: it reads headers, which are gone when a response over HTTP/3 has ended: no filter is shown its log. So its
	// value is taken when they pass, too.
	early bool
}

// reads reports whether the expression has its last value now.
func (e ending) reads(resp Response) bool { return e.token != nil && (!e.early || resp.Status() != 0) }

// Response is Settle's view of a response, a thin layer over the host. Its results need be
// valid only until the next call.
type Response interface {
	// Header is the first value of a header, and whether there is one. Names are in
	// lower case.
	Header(name string) (string, bool)
	// Status is the status code, 0 if it cannot be read.
	Status() int64
	// Unanswered reports whether the response is Envoy's own, since no upstream has
	// answered.
	Unanswered() bool
	// Evaluate is the value of an expression, as Request has it.
	Evaluate(token uint32) ([]byte, bool)
}

// Heard holds the result of reading a response's headers. The zero Heard stands for a
// response that never came.
type Heard struct {
	responded bool
	kept      bool  // the status keeps the charge, or the expression in its place
	isMissing bool  // that expression has no value
	cost      int64 // the true cost; Missing for none
}

// Worth is the true cost of a request, known once its response is.
type Worth struct {
	// Cost is the true cost, or Missing: then the charge stands.
	Cost int64
	// All: Cost holds for each limit, not only for the limits that take the rule's cost.
	All bool
}

// Missing is a value that a response does not have.
const Missing = -1

// compileEnding compiles a text that is evaluated on a response. Its value is not cached.
func (s *Set) compileEnding(text string) ending {
	column := s.textColumn(text)
	token := s.expressions[column].token
	return ending{&token, strings.Contains(text, "headers")}
}

// AtHeaders takes what response headers say.
func (s *Settle) AtHeaders(resp Response) Heard {
	h := Heard{responded: true, kept: s.Status == nil, cost: Missing}
	if s.Status != nil {
		status := resp.Status()
		for _, r := range s.Status {
			h.kept = h.kept || int64(r.First) <= status && status <= int64(r.Last)
		}
		h.kept = h.kept && !resp.Unanswered()
	}
	if s.keeps.early {
		h.keep(resp.Evaluate(*s.keeps.token))
	}
	if c := s.Cost; c != nil && c.Header != "" {
		if value, ok := resp.Header(c.Header); ok {
			if n := parseAmount(trim(value), Missing, c.Max*c.Per); n != Missing {
				h.cost = min((n+c.Per-1)/c.Per, c.Max)
			}
		}
	}
	if s.cost.early {
		h.cost = s.trueCost(resp.Evaluate(*s.cost.token))
	}
	return h
}

// Worth weighs a response that has ended. Where none came, the client has left, and the charge
// stands: or else work would be free for clients that do not wait for it.
func (s *Settle) Worth(h Heard, resp Response) Worth {
	if !h.responded {
		return Worth{Cost: Missing}
	}
	if s.keeps.reads(resp) {
		h.keep(resp.Evaluate(*s.keeps.token))
	}
	switch {
	case h.isMissing:
		return s.missing(true)
	case !h.kept:
		return Worth{Cost: 0, All: true}
	case s.Cost == nil:
		return Worth{Cost: Missing}
	case s.cost.reads(resp):
		h.cost = s.trueCost(resp.Evaluate(*s.cost.token))
	}
	if h.cost == Missing {
		return s.missing(false)
	}
	return Worth{Cost: h.cost}
}

// keep takes the value of the expression in the status' place, a bool.
func (h *Heard) keep(value []byte, ok bool) {
	h.isMissing = !ok || len(value) != 1
	h.kept = !h.isMissing && value[0] == 1
}

// trueCost is what the value of an expression is, as units; Missing if it is no number.
func (s *Settle) trueCost(value []byte, ok bool) int64 {
	f, isNumber := number(text.View(value))
	if !ok || !isNumber {
		return Missing
	}
	f = math.Ceil(f / float64(s.Cost.Per))
	if f >= float64(s.Cost.Max) {
		return s.Cost.Max
	}
	return int64(f)
}

// missing is the worth of an answer without a value. MissingCost settles the limits that take the rule's cost.
func (s *Settle) missing(all bool) Worth {
	switch {
	case s.MissingCost > 0:
		return Worth{Cost: s.MissingCost}
	case s.Release:
		return Worth{Cost: 0, All: all}
	}
	return Worth{Cost: Missing}
}
