package envoy_test

import "fmt"

// ledger has the same requests counted in two ways.
type ledger struct {
	Limit int64 // tokens in a window, which outlasts both runs
	// Settled is of requests that reserve what they may use, After of requests that are
	// counted when they have ended.
	Settled ledgerRun
	After   ledgerRun
}

// ledgerRun is the result of one way of counting the requests. Times are milliseconds since
// the first of them was sent.
type ledgerRun struct {
	Reservation int64           // tokens of each request
	Requests    []ledgerRequest // in the order in which they were sent
	Held        []ledgerSample  // in order; one for each change
}

// ledgerRequest is one request of the crowd.
type ledgerRequest struct {
	Sent     int64
	Admitted bool
	Ended    int64 // when the client had all of the answer
	Used     int64 // tokens, as the provider bills them; 0 if rejected
}

// ledgerSample is the count in Redis at a time.
type ledgerSample struct {
	At     int64
	Tokens int64
}

// used is the provider's bill for all requests.
func (r *ledgerRun) used() (tokens int64) {
	for _, q := range r.Requests {
		tokens += q.Used
	}
	return tokens
}

// admitted is how many requests were.
func (r *ledgerRun) admitted() (n int) {
	for _, q := range r.Requests {
		if q.Admitted {
			n++
		}
	}
	return n
}

// most is the most that Redis held at any time.
func (r *ledgerRun) most() (tokens int64) {
	for _, s := range r.Held {
		tokens = max(tokens, s.Tokens)
	}
	return tokens
}

// counted is the count of a run in Redis at its end: the tokens used, and in debt twice the
// limit at most.
func (l *ledger) counted(r *ledgerRun) (tokens int64) { return min(r.used(), 2*l.Limit) }

// check is an error unless the ledger shows what the documentation says of it: with
// settlements, Redis never holds more than the limit, and some requests are rejected;
// counted afterwards, the same requests pass the limit. In the end Redis holds what the
// provider bills, to the token, but no more than its bound on debt.
func (l *ledger) check() error {
	for name, r := range map[string]*ledgerRun{"settled": &l.Settled, "counted after": &l.After} {
		if len(r.Requests) == 0 || len(r.Held) == 0 {
			return fmt.Errorf("%s: nothing was recorded", name)
		}
		if last := r.Held[len(r.Held)-1].Tokens; last != l.counted(r) {
			return fmt.Errorf("%s: Redis holds %d tokens in the end, %d were used", name, last, r.used())
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
	case s.most() > l.Limit:
		return fmt.Errorf("settled: Redis held %d tokens, more than the limit of %d", s.most(), l.Limit)
	case s.used() < l.Limit/2 || s.admitted() == len(s.Requests):
		return fmt.Errorf("settled: %d of %d requests were admitted, and used %d tokens: the limit was not tried",
			s.admitted(), len(s.Requests), s.used())
	case a.used() <= l.Limit:
		return fmt.Errorf("counted after: %d tokens were used, within the limit of %d", a.used(), l.Limit)
	}
	for _, q := range s.Requests {
		if q.Used > s.Reservation {
			return fmt.Errorf("settled: a request used %d tokens, and had reserved %d", q.Used, s.Reservation)
		}
	}
	return nil
}
