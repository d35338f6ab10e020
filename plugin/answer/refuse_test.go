package answer

// Rejections by limits, by a block and by the failure mode, in the words of the tests.

func (w *Writer) Reject(limits []Limit, nowMicros int64, grpc bool) Reply {
	return w.Refuse(&Rejection{Limits: limits, AtMicros: nowMicros, GRPC: grpc})
}

func (w *Writer) Block(limits []Limit, leftMicros, nowMicros int64, grpc bool) Reply {
	return w.Refuse(&Rejection{
		Limits: limits, Blocked: true, LeftMicros: leftMicros, AtMicros: nowMicros, GRPC: grpc,
	})
}

func (w *Writer) Deny(grpc bool) Reply { return w.Refuse(&Rejection{Undecided: true, GRPC: grpc}) }
