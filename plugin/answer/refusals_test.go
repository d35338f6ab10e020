package answer

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// hourlyRejection is one by a limit, at 1,700,000,000 s.
func hourlyRejection() Rejection {
	return Rejection{Limits: []Limit{rejected(hourly, 0, 3500e6, 100e6)}, AtMicros: 1_700_000_000e6}
}

// refusals are rejections, each of which has an answer of its own.
var refusals = []struct {
	name   string
	change func(r *Rejection)
}{
	{"as it was", func(*Rejection) {}},
	{"another limit", func(r *Rejection) { r.Limits[0].Label = fast }},
	{"some left", func(r *Rejection) { r.Limits[0].Decision.Remaining = 3 }},
	{"a later reset", func(r *Rejection) { r.Limits[0].Decision.ResetAfterMicros++ }},
	{"a longer wait", func(r *Rejection) { r.Limits[0].Decision.RetryAfterMicros++ }},
	{"no wait helps", func(r *Rejection) { r.Limits[0].Decision.RetryAfterMicros = algo.Never }},
	{"later", func(r *Rejection) { r.AtMicros++ }},
	{"gRPC", func(r *Rejection) { r.GRPC = true }},
	{"undecided", func(r *Rejection) { r.Undecided = true }},
	{"blocked", func(r *Rejection) { r.Blocked, r.LeftMicros = true, 100e6 }},
	{"another rule's block", func(r *Rejection) { r.Limits[0].Blocked = true }},
	{"a chain", func(r *Rejection) { r.Chained, r.WaitMicros = true, 50e6 }},
	{"two limits", func(r *Rejection) { r.Limits = append(r.Limits, rejected(fast, 0, 1, 1)) }},
	{"another size", func(r *Rejection) {
		r.Limits[0].Sized = &algo.Limit{Algorithm: algo.FixedWindow, Units: 7, WindowMicros: 60e6}
	}},
}

// TestRefusals: whatever was answered before, an answer is the one of a Writer that has written
// nothing else.
func TestRefusals(t *testing.T) {
	t.Parallel()
	unix := both
	unix.ResetUnix = true
	for name, cfg := range map[string]*config.Config{
		"default":  {Headers: both},
		"unix":     {Headers: unix},
		"response": {Headers: both, Response: &config.Response{Status: 418, Headers: [][2]string{{"x-reason", "quota"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, before := range refusals {
				for _, after := range refusals {
					first, second := hourlyRejection(), hourlyRejection()
					before.change(&first)
					after.change(&second)
					f := NewRefusals(cfg, 1)
					f.Answer(&first)
					got, _ := f.Answer(&second)
					name := after.name + " after " + before.name
					want := New(cfg, 1).Refuse(&second)
					testenv.Same(t, name+": the status", got.Status, want.Status)
					testenv.Same(t, name+": the status of gRPC", got.GRPCStatus, want.GRPCStatus)
					testenv.SameList(t, name+": the headers", fields(got.Headers), fields(want.Headers))
					testenv.Same(t, name+": the body", got.Body, want.Body)
				}
			}
		})
	}
}

// TestAgain: an answer is kept until a second has passed, and where chance has a part in it not at all.
func TestAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		cfg     config.Config
		afterMs int64
		want    bool
	}{
		{name: "at once", want: true},
		{name: "within the second", afterMs: 999, want: true},
		{name: "a second later", afterMs: 1000},
		{name: "with jitter", cfg: config.Config{RetryJitterPercent: 10}},
	} {
		first, second := hourlyRejection(), hourlyRejection()
		second.AtMicros += tt.afterMs * 1000
		second.Limits[0].Decision.RetryAfterMicros -= tt.afterMs * 1000
		second.Limits[0].Decision.ResetAfterMicros -= tt.afterMs * 1000
		f := NewRefusals(&tt.cfg, 1)
		_, again := f.Answer(&first)
		testenv.Same(t, tt.name+": the first is an answer again", again, false)
		_, again = f.Answer(&second)
		testenv.Same(t, tt.name+": the second is", again, tt.want)
	}
}

// TestResponseOfARule stands in place of the top level's, whose fields it does not take.
func TestResponseOfARule(t *testing.T) {
	t.Parallel()
	f := NewRefusals(&config.Config{Response: &config.Response{Status: 418, Body: "no", HasBody: true}}, 1)
	r := hourlyRejection()
	first, _ := f.Answer(&r)
	testenv.Same(t, "the top level's status", first.Status, 418)
	r.Response = &config.Response{Status: 402, Headers: [][2]string{{"x-a", "b"}}}
	own, again := f.Answer(&r)
	testenv.Same(t, "that it is the same answer again", again, false)
	testenv.Same(t, "the rule's status", own.Status, 402)
	testenv.Same(t, "that the rule's body is the default", strings.Contains(own.Body, `"status":402,`), true)
	testenv.Same(t, "the rule's header", own.Headers[len(own.Headers)-1], [2]string{"x-a", "b"})
	r.GRPC = true
	rpc, _ := f.Answer(&r)
	testenv.Same(t, "the status of gRPC", rpc.GRPCStatus, 8)
}
