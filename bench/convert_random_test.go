package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestUnlimitedAndVIPKeysPassAsInTheService sends the keys that the service does not hold to the
// limit of all others, on every route, more often than that limit admits. A limit of the virtual
// host once took their exception away.
func TestUnlimitedAndVIPKeysPassAsInTheService(t *testing.T) {
	service := units.ReplaceAllString(converted(t, "vip", "ratelimit.yaml"), "unit: day") // no window ends
	d := newDuel(t, service, converted(t, "vip", "envoy.yaml"))
	for _, c := range []struct {
		key      string
		admitted int // of 150
	}{{"internal-batch", 150}, {"vip-7", 150}, {"vip-8", 150}, {"ordinary", 100}} {
		before := d.admitted
		for range 75 {
			d.fight(t, visit{host: "a", path: "/v1/x", ip: "203.0.113.7", headers: map[string]string{"x-api-key": c.key}})
			d.fight(t, visit{host: "a", path: "/x", ip: "203.0.113.7", headers: map[string]string{"x-api-key": c.key}})
		}
		if got := d.admitted - before; got != c.admitted {
			t.Errorf("%s: both admit %d of 150, want %d", c.key, got, c.admitted)
		}
	}
}

// TestRandomConversionsDecideAsTheServiceDoes makes files of random descriptors, hosts and routes.
func TestRandomConversionsDecideAsTheServiceDoes(t *testing.T) {
	rejected := 0
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := files{rand.New(rand.NewPCG(seed, 77))}
			service, envoy := f.service(), f.envoy()
			d := newDuel(t, service, envoy)
			for range 400 {
				d.fight(t, drawn.draw(f.random))
				if t.Failed() {
					t.Fatalf("%s\n---\n%s\n---\n%s", service, envoy, d.json)
				}
			}
			rejected += d.rejected
		})
	}
	if rejected < 500 {
		t.Errorf("both reject only %d requests: this tests little", rejected)
	}
}

// drawn are requests of these files.
var drawn = visits{
	hosts: "a.example.com b.example.com z.example.com c.test other.test",
	paths: "/ /a /a/b/x /ab /c /c/x",
	ips:   "203.0.113.7 203.0.113.8",
	headers: `x-a - v1 v2 w v11
x-b - v1 u
x-plan - pro free`,
}

// files makes random files.
type files struct{ random *rand.Rand }

func (f files) chance(percent int) bool { return f.random.IntN(100) < percent }

// actions are those that rate limits have; no two make the same descriptor.
var actions = []string{
	`{generic_key: {descriptor_value: g}}`,
	`{request_headers: {header_name: x-a, descriptor_key: a}}`,
	`{request_headers: {header_name: x-b, descriptor_key: b}}`,
	`{request_headers: {header_name: x-a, descriptor_key: a}}, {request_headers: {header_name: x-b, descriptor_key: b}}`,
	`{remote_address: {}}`,
	`{header_value_match: {descriptor_key: m, descriptor_value: pro, headers: [{name: x-plan, string_match: {exact: ` +
		`pro}}]}}`,
	`{header_value_match: {descriptor_key: m, descriptor_value: rest, expect_match: false, headers: [{name: x-plan, ` +
		`string_match: {exact: pro}}]}}`,
	`{generic_key: {descriptor_value: h}}, {request_headers: {header_name: x-a, descriptor_key: a}}`,
}

func (f files) envoy() string {
	var out strings.Builder
	out.WriteString("virtual_hosts:\n")
	hosts := []string{`["*"]`, `["a.example.com"]`, `["*.example.com"]`, `[b.example.com, c.test]`}
	for _, i := range f.random.Perm(len(hosts))[:1+f.random.IntN(len(hosts))] {
		own, limits := f.random.IntN(2*len(actions)), "[]"
		if own < len(actions) {
			limits = "[{actions: [" + actions[own] + "]}]"
		}
		fmt.Fprintf(&out, "- domains: %s\n  rate_limits: %s\n  routes:\n", hosts[i], limits)
		for n := range 1 + f.random.IntN(4) {
			matches := []string{"prefix: /", "prefix: /a", "prefix: /a/b", "prefix: /c", "path: /a", "path: /c/x"}
			match := matches[f.random.IntN(len(matches))]
			if f.chance(25) {
				match += fmt.Sprintf(", headers: [{name: x-plan, string_match: {exact: pro}, invert_match: %t}]", f.chance(50))
			}
			var limits []string // none of which is the host's: it would count twice
			for _, i := range f.random.Perm(len(actions))[:f.random.IntN(3)] {
				if i != own {
					limits = append(limits, "{actions: ["+actions[i]+"]}")
				}
			}
			fmt.Fprintf(&out, "  - {name: r%d-%d, match: {%s}, "+
				"route: {cluster: c, include_vh_rate_limits: %t, rate_limits: [%s]}}\n",
				i, n, match, f.chance(30), strings.Join(limits, ", "))
		}
	}
	fmt.Fprintf(&out, "  - {name: last, match: {prefix: /}, route: {cluster: c, rate_limits: [{actions: [%s]}]}}\n",
		actions[f.random.IntN(len(actions))])
	return out.String()
}

// limit is a random limit, or none where it may be.
func (f files) limit() string {
	switch f.random.IntN(8) {
	case 0:
		return "rate_limit: {unlimited: true}"
	case 1:
		return fmt.Sprintf("shadow_mode: true, rate_limit: {unit: day, requests_per_unit: %d}", f.random.IntN(9))
	}
	return fmt.Sprintf("rate_limit: {unit: day, requests_per_unit: %d}", 2+f.random.IntN(30))
}

// values are descriptors of one key for some of its values; deeper makes those below each.
func (f files) values(key string, deeper func() string) string {
	var all []string
	for _, value := range []string{"", "v1", "v2", "v*", "w", "v1*"} {
		one, percent := "key: "+key, 80
		if value != "" {
			one, percent = one+fmt.Sprintf(", value: %q", value), 35
		}
		if !f.chance(percent) {
			continue
		}
		if f.chance(85) {
			one += ", " + f.limit()
		}
		if deeper != nil && f.chance(60) {
			one += ", descriptors: [" + deeper() + "]"
		}
		all = append(all, "{"+one+"}")
	}
	if all == nil {
		return fmt.Sprintf("{key: %s, %s}", key, f.limit())
	}
	return strings.Join(all, ", ")
}

func (f files) service() string {
	b := func() string { return f.values("b", nil) }
	a := func() string { return f.values("a", nil) }
	lines := []string{
		fmt.Sprintf("{key: generic_key, value: g, %s}", f.limit()),
		fmt.Sprintf("{key: generic_key, value: h, descriptors: [%s]}", a()),
		f.values("a", b), b(),
		fmt.Sprintf("{key: remote_address, %s}", f.limit()),
		fmt.Sprintf("{key: m, value: pro, %s}", f.limit()),
		fmt.Sprintf("{key: m, value: rest, %s}", f.limit()),
	}
	return "domain: random\ndescriptors: [\n  " + strings.Join(lines, ",\n  ") + "]\n"
}
