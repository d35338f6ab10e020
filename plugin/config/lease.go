package config

// readLease reads a limit's "lease". It refuses one where the units that a worker
// holds could admit more than the rule allows, or would mean nothing.
func (s scope) readLease(o object, limit *Limit, several bool) {
	fields := o.object("lease")
	if !fields.there {
		return
	}
	limit.Lease = &Lease{Units: fields.number("units"), TTLMicros: fields.number("ttl")}
	if limit.Algorithm.HasBurst() && !limit.Queue {
		// A batch waits for the one before to be spent, for a ttl at most. More than a window is a
		// mistake, see below.
		limit.LeaseMicros = 2 * min(limit.Lease.TTLMicros, limit.WindowMicros)
	}
	if capacity := limit.Capacity(); capacity > 0 && limit.Lease.Units > capacity {
		fields.mistake(`"units" %d is above the limit's capacity %d (want at most that)`, limit.Lease.Units, capacity)
	}
	if limit.WindowMicros > 0 && limit.Lease.TTLMicros > limit.WindowMicros {
		fields.mistake(`"ttl" %q is above the window %q (want at most that)`,
			FormatDuration(limit.Lease.TTLMicros), limit.Window)
	}
	if why := s.unleasable(limit, several); why != "" {
		o.mistake(`"lease" cannot be used here: %s (remove it)`, why)
	}
}

// unleasable returns why a limit cannot be leased, or "".
func (s scope) unleasable(limit *Limit, several bool) string {
	cost := s.costOf(limit)
	switch {
	case several:
		return "the rule has several limits, which only Redis can decide together"
	case limit.Cost != nil && (!cost.IsConstant() || cost.Default != 1):
		return "the limit's cost is not the constant 1"
	case !cost.IsConstant() || cost.Default != 1:
		return "the rule's cost is not the constant 1"
	case limit.Per != nil:
		return `the limit has "per"`
	case limit.Ceiling != 0:
		return `the limit has a "ceiling"`
	case limit.UnitsFrom != nil || limit.BurstFrom != nil:
		return "the limit comes with the request"
	case s.rule.Settle != nil:
		return "the rule settles what was charged"
	case s.rule.Overrides:
		return "the rule has overrides, which a worker would not hear of while it spends its units"
	case s.rule.Penalty != nil:
		return "the rule has a penalty, which a worker would not hear of while it spends its units"
	case s.rule.Mode != Enforce:
		return `the rule's mode is not "enforce"`
	}
	if err := limit.Leasable(); err != nil {
		return err.Error()
	}
	return ""
}
