package twinredis

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
)

// parsePacked reads the arguments of a check of a plan that packs.
func parsePacked(p *algo.Plan, args [][]byte) (a arguments, ok bool) {
	n := p.NumCheckArgs()
	if len(args) < n || len(args[0]) == 0 {
		return a, false
	}
	costs := strings.Split(string(args[0]), " ")
	for i := range p.Limits() {
		cost, err := strconv.ParseInt(costs[min(i, len(costs)-1)], 10, 64)
		if err != nil {
			return a, false
		}
		a.costs = append(a.costs, cost)
	}
	if _, slots := p.Slots(); slots {
		a.nonce, _ = strconv.ParseInt(string(args[1]), 10, 64)
	}
	for packed := args[n-1]; len(packed) >= 8; packed = packed[8:] {
		a.limits = append(a.limits, exactly(math.Float64frombits(binary.LittleEndian.Uint64(packed))))
	}
	for _, arg := range args[n:] {
		a.rest = append(a.rest, string(arg))
	}
	return a, len(costs) == 1 || len(costs) == len(a.costs)
}

// exactly is a number with all its digits, as algo.Plan.Args has them: it counts 2^-30 at the
// finest.
func exactly(number float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(number, 'f', 30, 64), "0"), ".")
}
