// Package ledger records how a crowd of clients used a limit on tokens: what each request
// reserved and used, and what Redis held meanwhile. deploy/envoy records one on a real
// Envoy and Redis; cmd/pictures draws it.
package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Ledger has the same requests counted in two ways.
type Ledger struct {
	Limit int64 `json:"limit"` // tokens in a window, which outlasts both runs
	// Settled is of requests that reserve what they may use, After of requests that are
	// counted when they have ended.
	Settled Run `json:"settled"`
	After   Run `json:"after"`
}

// Run is the result of one way of counting the requests. Times are milliseconds since
// the first of them was sent.
type Run struct {
	Reservation int64     `json:"reservation"` // tokens of each request
	Requests    []Request `json:"requests"`    // in the order in which they were sent
	Held        []Sample  `json:"held"`        // in order; one for each change
}

// Request is one request of the crowd.
type Request struct {
	Sent     int64 `json:"sent"`
	Admitted bool  `json:"admitted"`
	Ended    int64 `json:"ended"` // when the client had all of the answer
	Used     int64 `json:"used"`  // tokens, as the provider bills them; 0 if rejected
}

// Sample is the count in Redis at a time.
type Sample struct {
	At     int64 `json:"at"`
	Tokens int64 `json:"tokens"`
}

// Used is the provider's bill for all requests.
func (r *Run) Used() (tokens int64) {
	for _, q := range r.Requests {
		tokens += q.Used
	}
	return tokens
}

// Admitted is how many requests were.
func (r *Run) Admitted() (n int) {
	for _, q := range r.Requests {
		if q.Admitted {
			n++
		}
	}
	return n
}

// Most is the most that Redis held at any time.
func (r *Run) Most() (tokens int64) {
	for _, s := range r.Held {
		tokens = max(tokens, s.Tokens)
	}
	return tokens
}

// Counted is the count of a run in Redis at its end: the tokens used, and in debt twice the
// limit at most.
func (l *Ledger) Counted(r *Run) (tokens int64) { return min(r.Used(), 2*l.Limit) }

// Check is an error unless the ledger shows what the documentation says of it: with
// settlements, Redis never holds more than the limit, and some requests are rejected;
// counted afterwards, the same requests pass the limit. In the end Redis holds what the
// provider bills, to the token, but no more than its bound on debt.
func (l *Ledger) Check() error {
	for name, r := range map[string]*Run{"settled": &l.Settled, "counted after": &l.After} {
		if len(r.Requests) == 0 || len(r.Held) == 0 {
			return fmt.Errorf("%s: nothing was recorded", name)
		}
		if last := r.Held[len(r.Held)-1].Tokens; last != l.Counted(r) {
			return fmt.Errorf("%s: Redis holds %d tokens in the end, %d were used", name, last, r.Used())
		}
		for _, q := range r.Requests {
			if q.Admitted != (q.Used > 0) {
				return fmt.Errorf("%s: %+v", name, q)
			}
		}
	}
	s, a := &l.Settled, &l.After
	switch {
	case len(s.Requests) != len(a.Requests):
		return fmt.Errorf("%d requests in one run, %d in the other", len(s.Requests), len(a.Requests))
	case s.Most() > l.Limit:
		return fmt.Errorf("settled: Redis held %d tokens, more than the limit of %d", s.Most(), l.Limit)
	case s.Used() < l.Limit/2 || s.Admitted() == len(s.Requests):
		return fmt.Errorf("settled: %d of %d requests were admitted, and used %d tokens: the limit was not tried",
			s.Admitted(), len(s.Requests), s.Used())
	case a.Used() <= l.Limit:
		return fmt.Errorf("counted after: %d tokens were used, within the limit of %d", a.Used(), l.Limit)
	}
	for _, q := range s.Requests {
		if q.Used > s.Reservation {
			return fmt.Errorf("settled: a request used %d tokens, and had reserved %d", q.Used, s.Reservation)
		}
	}
	return nil
}

// Marshal writes the ledger, an entry a line.
func (l *Ledger) Marshal() ([]byte, error) {
	text, err := json.Marshal(l)
	text = bytes.ReplaceAll(text, []byte("{\"sent\""), []byte("\n{\"sent\""))
	text = bytes.ReplaceAll(text, []byte("{\"at\""), []byte("\n{\"at\""))
	return append(text, '\n'), err
}

// Unmarshal reads what Marshal has written.
func Unmarshal(text []byte) (*Ledger, error) {
	l := new(Ledger)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("a ledger: %w", err)
	}
	return l, nil
}
