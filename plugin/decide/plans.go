package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// plans makes the plans of limits whose sizes came with a request. By rule.LimitSet.ID.
type plans []algo.Plan

// of is the plan of limits with these sizes; with none as it is configured. It is good until
// the next call about the same limits.
func (p plans) of(limits *rule.LimitSet, sizes []algo.Size) *algo.Plan {
	return limits.Plan.At(&p[limits.ID], sizes)
}

// sameSize reports whether a limit has the same size, whenever its windows begin.
func sameSize(a, b algo.Size) bool { return a.Units == b.Units && a.Burst == b.Burst }
