package answer

// Rejection is all that the answer to a refused request says.
type Rejection struct {
	Text string // what access logs say
	// Undecided: no limit rejects the request. Redis did not decide it, and the failure mode
	// is deny. Only Text and GRPC are set then.
	Undecided bool

	Limits   []Limit // all that the client is shown, in rule order
	By       []Limit // of these those of the rule that rejects
	AtMicros int64   // Unix time of the decisions; 0 if no store has told one
	// Blocked: a block rejects, not a limit. LeftMicros is how long it still lasts; algo.Never
	// if it has no end.
	Blocked    bool
	LeftMicros int64
	// Chained: some rule has an over, so that the limits do not say how long to wait. WaitMicros
	// does; algo.Never if waiting does not help.
	Chained    bool
	WaitMicros int64
	Identity   string // that the rule rejects
	GRPC       bool   // the request is gRPC
}

// Refuse answers a request that is refused.
func (w *Writer) Refuse(r *Rejection) Reply {
	switch {
	case r.Undecided:
		return w.Deny(r.GRPC)
	case r.Blocked && r.Chained:
		return w.block(r.Limits, r.LeftMicros, waitSeconds(r.WaitMicros), r.AtMicros, r.GRPC)
	case r.Blocked:
		return w.Block(r.Limits, r.LeftMicros, r.AtMicros, r.GRPC)
	case r.Chained:
		return w.rejectLimits(r.Limits, waitSeconds(r.WaitMicros), r.AtMicros, r.GRPC)
	}
	return w.Reject(r.Limits, r.AtMicros, r.GRPC)
}

// AppendState appends the filter state: which limit rejects which identity.
func (r *Rejection) AppendState(dst []byte) []byte {
	if r.Blocked {
		return AppendBlocked(dst, r.LeftMicros, r.Identity)
	}
	return AppendRejected(dst, r.By, r.Identity)
}
