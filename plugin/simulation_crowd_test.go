package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A crowd is many requests of one user at once, more than Redis is asked about, which answers all the
// same, by and by, also between the requests, or has answered some when it stops. However many they are,
// no more are admitted than the limits have.

// maxCrowd is how many requests a crowd has at most.
const maxCrowd = 240

// crowd brings a crowd to a worker: so many requests of a user, whose costs, plans and limits follow
// from a seed, with headers. What is drawn stays in this order, or a kept run would have another crowd.
func (v *simulation) crowd(w words) {
	random := newRandom(uint64(w.number(3)))
	v.hangs, v.refuses, v.refusal = false, false, ""
	v.serveAll()
	v.advance(30 * time.Millisecond)
	v.serveAll()
	known := v.ask(w, "before-"+w[2])
	first, plan, isMixed := len(v.all), pick(random, plans...), random.IntN(2) == 0
	pace := pick(random, 0, 1+random.Int64N(8), 8+random.Int64N(32)) // requests between replies
	for n := range w.number(1) {
		if pace > 0 && n%pace == 0 {
			v.serveOnce()
		}
		if isMixed {
			plan = pick(random, plans...)
		}
		size, cost := pick(random, sizes...), fmt.Sprint(random.IntN(4))
		v.arrive(words{w[0], w[2], cost, plan, w[4] + "," + size})
	}
	crowd := v.all[first:]
	every := time.Duration(1+random.Int64N(v.config.Timeout.Milliseconds()/4)) * time.Millisecond
	rounds := pick(random, 3+random.IntN(6), maxCrowd) // then Redis answers no more
	for n := 0; v.stillWaits(crowd); n++ {
		v.advance(every)
		if n < rounds {
			v.serveOnce()
		}
	}
	v.serveAll()
	if known && !v.embeds && !v.forgot() {
		v.checkCrowd(crowd)
	}
	for _, r := range crowd {
		v.end(r)
	}
}

// ask reports whether Redis answers a request of a user alone.
func (v *simulation) ask(w words, user string) bool {
	v.arrive(words{w[0], user, "1", "-", w[4]})
	r := v.all[len(v.all)-1]
	v.serveAll()
	answers := r.exited && (r.byRedis() || strings.HasPrefix(r.outcome, "limited:"))
	for v.stillWaits(v.all[r.id:]) {
		v.advance(time.Millisecond)
	}
	v.end(r)
	return answers
}

// stillWaits reports whether some of the requests wait.
func (v *simulation) stillWaits(requests []*simRequest) bool {
	return v.failed == "" && slices.ContainsFunc(requests, func(r *simRequest) bool { return !r.exited })
}

// checkCrowd fails if more of a crowd were admitted than there was: by Redis, and by the failure mode.
func (v *simulation) checkCrowd(crowd []*simRequest) {
	for _, rule := range v.config.Rules {
		key, undecided := rule.Name+"|"+rule.identity(crowd[0]), int64(0)
		for _, r := range crowd {
			lent, cost := r.admitted && !r.certain && r.applies(rule) && rule.charges(r), rule.costOf(r)
			if !lent || cost == 0 {
				continue
			}
			undecided += cost
			if rule.Name == "classes" && r.usedBefore+cost > rule.roomOf(r)+v.flowsBack(rule) {
				v.fail("request %d of plan %s, cost %d: the failure mode has admitted it, after %d", r.id, r.plan, cost,
					r.usedBefore)
			}
		}
		if most := rule.Total + v.flowsBack(rule); rule.Total > 0 && v.admitted[key]+undecided > most {
			v.fail("%s: of a crowd of %d the failure mode has admitted %d, after %d, the limit is %d", key, len(crowd),
				undecided, v.admitted[key], most)
		}
	}
}

// contract gives a user the contracts that it has for ever.
func (v *simulation) contract(user string) {
	v.redis.Set("rl:{accounts|"+user+"}:override", "tier:"+tierOf(user), 0, v.redisMicros())
	v.redis.Set("rl:{figures|"+user+"}:override", "tier:pro", 0, v.redisMicros())
}
