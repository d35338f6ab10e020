package main

import (
	"fmt"
	"strings"
)

// callsEach is how often a request makes a host call whose cost is measured.
const callsEach = 50

// hostCall is one that Sluice makes, and how often it does for a request that Redis
// admits by one rule, whose key is one header.
type hostCall struct {
	id, title string
	often     string
}

var hostCalls = []hostCall{
	{"request_header", "read a request header", "1"},
	{"absent_header", "look for a header that is not there", "3"},
	{"attribute", "read an attribute (`source.address`)", "-"},
	{"clock", "read the clock", "2 or 3"},
	{"effective_context", "change the context", "2"},
	{"filter_state", "set filter state for access logs", "1"},
	{"response_status", "read the response's status", "1 where a rule settles by it"},
	{"response_header", "set a header of the response", "3"},
	{"increment_a_metric", "increment a metric", "some each 100 ms"},
}

func (c hostCall) setup() *setup {
	return &setup{
		id: "call-" + c.id, title: c.title, status: 200,
		edit: emptyFilter(fmt.Sprintf("%s %d", c.id, callsEach)),
	}
}

// noCalls is the setup with which those of host calls are compared.
func noCalls() *setup {
	return &setup{id: "call-none", title: "none", status: 200, edit: emptyFilter("accept")}
}

// callSetups are all of them, and what they are compared with in the same rounds.
func callSetups() []*setup {
	all := []*setup{noCalls()}
	for _, c := range hostCalls {
		all = append(all, c.setup())
	}
	return all
}

// callCost is the CPU µs of one host call.
func (r results) callCost(c hostCall) spread {
	return compare(func(m []float64) float64 { return difference(m) / callsEach },
		r.of(c.setup().id, mainLoad, envoyCPU), r.of(noCalls().id, mainLoad, envoyCPU))
}

// writeCalls writes what host calls cost, if that was measured.
func (r *report) writeCalls(b *strings.Builder) {
	if len(r.Results[noCalls().id]) == 0 {
		return
	}
	fmt.Fprintf(b, "\nCPU µs of Envoy for one host call, by a Wasm filter that makes it %d times for each request and "+
		"does nothing else:\n\n", callsEach)
	b.WriteString("| | µs | how often Sluice does it, a request |\n|---|---:|---:|\n")
	for _, c := range hostCalls {
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.title, r.Results.callCost(c).text(2), c.often)
	}
}
