package main

import (
	"fmt"

	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/svg"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// scheme is a way to share a pool of 500 requests a second.
type scheme struct {
	name, note string
	pool       string // what the pool's limit says besides
	others     string // limits behind it
}

const (
	ceiling = `, "ceiling": {"source": {"header": "x-priority"},
		"values": {"normal": 100, "bulk": 50}, "default": "normal"}`
	guarantee = `, {"name": "tenant", "algorithm": "gcra", "limit": 45, "window": "1s", "burst": 9,
		"per": [{"header": "x-tenant"}], "guarantee": true}`
)

var schemes = []scheme{
	{"one limit", "who asks most gets most", "", ""},
	{"ceiling", "bulk stops at half of the pool", ceiling, ""},
	{"guarantee", "45 a second for each tenant", "", guarantee},
	{"both", "", ceiling, guarantee},
}

// crowd is the traffic, whose last client is the flooder.
func crowd() *simulate.Traffic {
	t := &simulate.Traffic{Duration: 20 * second}
	add := func(name, class, arrivals string, rate float64) {
		t.Clients = append(t.Clients, simulate.Client{
			Name: name, Rate: rate, Arrivals: arrivals, Identities: 1, URL: "http://h/",
			From:    simulate.Duration(len(t.Clients)) * 3 * millisecond, // one after the other
			Headers: map[string]string{"x-tenant": name, "x-priority": class},
		})
	}
	for n := range 9 {
		add(fmt.Sprint("tenant ", n+1), "normal", "even", 40)
	}
	add("flooder", "bulk", "random", 2000)
	return t
}

// share is who got what of the pool, in requests a second.
type share struct {
	sent, tenants, flooder float64 // sent by the tenants; admitted of theirs, and of the flooder's
}

// shared simulates a scheme as "sluice simulate" does.
func (s scheme) shared() (share, error) {
	cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [{"name": "fleet", "key": [], "limits": [
		{"name": "pool", "algorithm": "gcra", "limit": 500, "window": "1s", "burst": 100` + s.pool + `}` + s.others + `]}]}`))
	if err != nil {
		return share{}, err
	}
	rules, err := rule.Compile(cfg, nil)
	if err != nil {
		return share{}, err
	}
	traffic := crowd()
	if err := traffic.Check(); err != nil {
		return share{}, err
	}
	r := simulate.Run(cfg, rules, simulate.Generate(traffic, 1),
		simulate.Options{Envoys: 1, Workers: 2, RoundTripMicros: 500, Seed: 1})
	last := len(r.Groups) - 1
	out := share{flooder: float64(r.Groups[last].Admitted) / r.Seconds}
	for _, g := range r.Groups[:last] {
		out.sent += float64(g.Requests) / r.Seconds
		out.tenants += float64(g.Admitted) / r.Seconds
	}
	return out, nil
}

// drawLevels shows who gets a pool under each scheme.
func drawLevels() ([]byte, error) {
	const (
		width, barLeft, barWidth, top, row = 808, 252, 400, 84, 50
		pool                               = 500
	)
	bottom := float64(top + row*len(schemes))
	c := svg.New(width, int(bottom)+48, "Who gets a pool of 500 requests a second")
	c.Text("title", 20, 34, "A pool of 500 a second: nine tenants send 360, a flooder sends 2,000")
	c.Text("note", barLeft, top-16, "admitted a second")
	c.Text("note end", width-20, top-16, "tenants' requests refused")
	for i, s := range schemes {
		got, err := s.shared()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		y := float64(top + i*row)
		c.Text("name", 20, y+14, "%s", s.name)
		c.Text("note", 20, y+31, "%s", s.note)
		c.Rect("unseen", barLeft, y, barWidth, 28)
		c.Rect("admitted", barLeft, y, got.tenants*barWidth/pool, 28)
		c.Rect("over", barLeft+got.tenants*barWidth/pool, y, got.flooder*barWidth/pool, 28)
		c.Text("number end", width-20, y+20, "%.0f %%", 100*(1-got.tenants/got.sent))
	}
	c.Key("admitted", barLeft, bottom+24, "tenants")
	c.Key("over", barLeft+90, bottom+24, "the flooder, of class bulk")
	c.Key("unseen", barLeft+290, bottom+24, "free")
	return c.SVG(), nil
}
