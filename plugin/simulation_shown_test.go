package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// What clients are told of the rule "classes", of which each class has another share.

var shownOfClasses = regexp.MustCompile(`"classes";r=([0-9]+)`)

// showsClasses reports whether answers tell of that rule.
func (c *simConfig) showsClasses() bool {
	return slices.ContainsFunc(c.rules, func(r *simRule) bool { return r.name == "classes" })
}

// roomOf is how much of the rule "classes" a request's class may use.
func (r *simRule) roomOf(q *simRequest) int64 {
	percent, known := map[string]int64{"pro": 100, "free": 80}[q.plan]
	if !known {
		percent = 50
	}
	return max(1, r.total*percent/100)
}

// checkShown fails if the headers of an answer tell a class what it does not have.
func (v *simulation) checkShown(r *simRequest, headers wasmhost.Pairs) {
	for _, h := range headers {
		if !strings.EqualFold(h[0], "ratelimit") {
			continue
		}
		if found := shownOfClasses.FindStringSubmatch(h[1]); found != nil {
			left, _ := strconv.ParseInt(found[1], 10, 64)
			v.checkLeft(r, left)
		}
	}
}

// checkReport fails if the answer to a request for the quota does so.
func (v *simulation) checkReport(r *simRequest) {
	if r.outcome != "quota" || r.Local.Status != 200 {
		return
	}
	var report struct {
		Limits []struct {
			Name      string
			Remaining int64
		}
	}
	if err := json.Unmarshal([]byte(r.Local.Body), &report); err != nil {
		v.fail("request %d for the quota: %v: %s", r.id, err, r.Local.Body)
	}
	for _, limit := range report.Limits {
		if limit.Name == "classes" {
			v.checkLeft(r, limit.Remaining)
		}
	}
}

// checkLeft fails if a request is told that it has more of the rule "classes" left than its class has.
func (v *simulation) checkLeft(r *simRequest, left int64) {
	rule := v.config.rules[slices.IndexFunc(v.config.rules, func(r *simRule) bool { return r.name == "classes" })]
	room, cost := rule.roomOf(r), rule.costOf(r)
	most := room
	exact, decided := !v.config.usesEmbedded() && !v.forgot(), r.certain || r.outcome == "quota"
	if exact && decided {
		most = max(0, room-r.usedBefore+v.flowsBack(rule))
	}
	if r.certain && r.applies(rule) {
		most = min(most, room-cost)
	}
	if r.rejectedBy(rule) && cost <= room {
		most = min(most, cost-1)
	}
	if left > most {
		v.fail("request %d of plan %s, cost %d, %s: classes tells %d left, which has %d at most", r.id, r.plan, cost,
			r.outcome, left, most)
	}
}
