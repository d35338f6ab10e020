package rule

import (
	"math"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Settle is a compiled config.Settle: what the response makes of a rule's charge. It
// is read twice. AtHeaders takes what response headers say while they pass; Worth
// takes the rest when the stream has ended, and weighs it all.
type Settle struct {
	*config.Settle
	keeps *uint32 // the token of Expr; nil for none
	cost  *uint32 // the token of the expression that is the true cost; nil for none
}

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
	kept      bool  // the status keeps the charge
	value     int64 // of the header that is the true cost; Missing for none
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

// responseToken compiles a text that is evaluated on a response. Its value is not cached.
func (s *Set) responseToken(text string) *uint32 {
	column := s.textColumn(text)
	token := s.expressions[column].token
	return &token
}

// AtHeaders takes what response headers say.
func (s *Settle) AtHeaders(resp Response) Heard {
	h := Heard{responded: true, value: Missing}
	if s.Status != nil {
		status := resp.Status()
		for _, r := range s.Status {
			h.kept = h.kept || int64(r.First) <= status && status <= int64(r.Last)
		}
		h.kept = h.kept && !resp.Unanswered()
	}
	if c := s.Cost; c != nil && c.Header != "" {
		if value, ok := resp.Header(c.Header); ok {
			h.value = parseAmount(trim(value), Missing, c.Max*c.Per)
		}
	}
	return h
}

// Worth weighs a response that has ended. Where none came, the client has left, and the charge
// stands: or else work would be free for clients that do not wait for it.
func (s *Settle) Worth(h Heard, resp Response) Worth {
	if !h.responded {
		return Worth{Cost: Missing}
	}
	kept := h.kept || s.Status == nil
	if s.keeps != nil {
		value, ok := resp.Evaluate(*s.keeps)
		if !ok || len(value) != 1 {
			return s.missing(true)
		}
		kept = value[0] == 1
	}
	switch {
	case !kept:
		return Worth{Cost: 0, All: true}
	case s.Cost == nil:
		return Worth{Cost: Missing}
	case s.cost == nil && h.value == Missing:
		return s.missing(false)
	case s.cost == nil:
		return Worth{Cost: min((h.value+s.Cost.Per-1)/s.Cost.Per, s.Cost.Max)}
	}
	value, ok := resp.Evaluate(*s.cost)
	f, isNumber := number(text.View(value))
	if !ok || !isNumber {
		return s.missing(false)
	}
	f = math.Ceil(f / float64(s.Cost.Per))
	if f >= float64(s.Cost.Max) {
		return Worth{Cost: s.Cost.Max}
	}
	return Worth{Cost: int64(f)}
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
