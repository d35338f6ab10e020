package simulate

import (
	"fmt"

	"github.com/sluiceproxy/sluice/plugin/rule"
)

// response is what a log says of a response: its status.
type response int64

// Header implements rule.Response.
func (response) Header(string) (string, bool) { return "", false }

// Status implements rule.Response.
func (s response) Status() int64 { return int64(s) }

// Unanswered implements rule.Response.
func (response) Unanswered() bool { return false }

// Evaluate implements rule.Response.
func (response) Evaluate(uint32) ([]byte, bool) { return nil, false }

// settle has rules settle by the status that the log has, and by nothing else. It notes what it lacks.
func (l *Log) settle(rules *rule.Set) {
	for _, r := range rules.Rules {
		if r.Settle == nil {
			continue
		}
		lacks := ""
		byStatus, settings := *r.Settle, *r.Settle.Settle
		switch {
		case settings.Expr != "":
			lacks, r.Settle = "an expression", nil
		case settings.Status == nil:
			lacks, r.Settle = "the true cost", nil
		case !l.status:
			lacks, r.Settle = "the status", nil
		default:
			if settings.Cost != nil {
				lacks, settings.Cost = "the true cost", nil
			}
			byStatus.Settle, r.Settle = &settings, &byStatus
		}
		if lacks != "" {
			l.Notes = append(l.Notes, fmt.Sprintf("rule %q settles by %s, which the log does not have: what requests "+
				"reserve stays charged", r.Name, lacks))
		}
	}
}
