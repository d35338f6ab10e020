package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/convert"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestConvertedDecidesAsTheServiceDoes sends the same random requests to
// envoyproxy/ratelimit and to what its configuration was converted to. They may
// disagree where the documents say so: Sluice's rejected requests consume nothing.
func TestConvertedDecidesAsTheServiceDoes(t *testing.T) {
	binary, err := buildService(context.Background(), testenv.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"address", "nested", "routes", "matches", "vip"} {
		t.Run(name, func(t *testing.T) {
			d := newDuel(t, binary, shortened(converted(t, name, "ratelimit.yaml")), converted(t, name, "envoy.yaml"))
			random := rand.New(rand.NewPCG(1, uint64(len(name))))
			for range 600 {
				d.fight(randomRequest(random))
				if t.Failed() {
					return
				}
			}
			if d.rejected < 50 || d.admitted < 20 {
				t.Errorf("%d rejected and %d admitted by both: this tests little", d.rejected, d.admitted)
			}
		})
	}
}

// converted is a file of an example of what is converted.
func converted(t *testing.T, name, file string) string {
	t.Helper()
	return string(testenv.File(t, "cmd/sluice/convert/testdata/"+name+"/"+file))
}

var (
	units  = regexp.MustCompile(`\bunit: \w+`)
	counts = regexp.MustCompile(`requests_per_unit: (\d+)`)
)

// shortened makes limits that a test reaches, and windows that it does not leave.
func shortened(service string) string {
	service = units.ReplaceAllString(service, "unit: day")
	return counts.ReplaceAllStringFunc(service, func(text string) string {
		n, _ := strconv.Atoi(counts.FindStringSubmatch(text)[1])
		return fmt.Sprintf("requests_per_unit: %d", 3+n%20)
	})
}

// duel is the service and Sluice with one configuration.
type duel struct {
	t      *testing.T
	url    string
	domain string
	hosts  []hostModel
	bare   []limitModel

	json     []byte // what the files were converted to
	rules    *rule.Set
	compiled *explain.Expressions
	matcher  rule.Matcher
	states   map[string][]algo.State
	tainted  map[string]bool // the service has counted rejected requests there
	admitted int             // by both
	rejected int
}

func newDuel(t *testing.T, binary, limits, envoy string) *duel {
	t.Helper()
	result, err := convert.RateLimit(convert.File{Name: "ratelimit.yaml", Text: []byte(limits)},
		convert.File{Name: "envoy.yaml", Text: []byte(envoy)})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse(result.JSON)
	if err != nil {
		t.Fatal(err)
	}
	d := &duel{
		t: t, json: result.JSON, compiled: &explain.Expressions{},
		states: map[string][]algo.State{}, tainted: map[string]bool{},
	}
	if d.rules, err = rule.Compile(cfg, d.compiled); err != nil {
		t.Fatal(err)
	}
	d.readRoutes(envoy)
	d.domain = regexp.MustCompile(`domain: (\S+)`).FindStringSubmatch(limits)[1]
	at := place{
		service: testenv.FreePort(t), health: testenv.FreePort(t), debug: testenv.FreePort(t),
		redis: redistest.Start(t).Port,
	}
	b := &bench{dir: t.TempDir(), service: binary}
	_, err = b.startService(context.Background(), &service{}, limits, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(0) })
	d.url = "http://" + addr(at.health)
	testenv.Wait(t, time.Minute, func() error { return process.AnswersOK(t.Context(), d.url+"/healthcheck") })
	return d
}

// readRoutes finds the routes, or the rate limits that stand alone.
func (d *duel) readRoutes(envoy string) {
	d.t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(envoy), &tree); err != nil {
		d.t.Fatal(err)
	}
	into := func(value, target any) {
		text, err := yaml.Marshal(value)
		if err == nil {
			err = yaml.Unmarshal(text, target)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if hosts, ok := v["virtual_hosts"]; ok {
				into(hosts, &d.hosts)
				return
			}
			if limits, ok := v["rate_limits"]; ok {
				into(limits, &d.bare)
				return
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(tree)
}

// fight has both sides decide a request.
func (d *duel) fight(s visit) {
	d.t.Helper()
	if _, _, routed := d.limits(s); !routed {
		return // 404 in any case
	}
	service := d.service(s)
	sluice, tags, alone := d.sluice(s)
	tainted := slices.ContainsFunc(tags, func(tag string) bool { return d.tainted[tag] })
	switch {
	case service == sluice && sluice:
		d.admitted++
	case service == sluice:
		d.rejected++
	case service:
		d.t.Errorf("%+v: the service admits it, Sluice rejects it", s)
	case !tainted:
		d.t.Errorf("%+v: the service rejects it, Sluice admits it, and nothing that was rejected before explains it", s)
	}
	if !service && !alone {
		for _, tag := range tags {
			d.tainted[tag] = true
		}
	}
}

// sluice decides by the converted rules. It returns the tags of the rules that
// apply, and whether no more than one does.
func (d *duel) sluice(s visit) (admitted bool, tags []string, alone bool) {
	d.t.Helper()
	req, err := explain.NewRequest("GET", (&url.URL{Scheme: "http", Host: s.host, Path: s.path}).String())
	if err == nil {
		err = req.SetClientIP(s.ip)
	}
	for name, value := range s.headers {
		if err == nil {
			err = req.AddHeader(name + ": " + value)
		}
	}
	if _, route, _ := d.limits(s); err == nil {
		err = req.SetProperty("xds.route_name=" + route)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	req.Use(d.compiled)
	applied, _, _ := d.rules.Apply(req, &d.matcher)
	now, after := time.Now().UnixMicro(), map[string][]algo.State{}
	admitted = true
	for _, a := range applied {
		if a.Limits == nil {
			continue
		}
		tag := string(a.Tag)
		tags = append(tags, tag)
		n := len(a.Limits.Limits)
		states, costs, out := make([]algo.State, n), slices.Repeat([]int64{a.Cost}, n), make([]algo.Decision, n)
		for i, before := range d.states[tag] {
			states[i] = slices.Clone(before)
		}
		if a.Limits.Plan.Decide(states, now, costs, out) {
			after[tag] = states
		} else if a.Rule.Enforced {
			admitted = false
		}
	}
	if admitted {
		for tag, states := range after {
			d.states[tag] = states
		}
	}
	return admitted, tags, len(tags) < 2
}

// service decides by the descriptors that Envoy would send.
func (d *duel) service(s visit) (admitted bool) {
	d.t.Helper()
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	type descriptor struct {
		Entries []entry `json:"entries"`
	}
	var sent []descriptor
	limits, _, _ := d.limits(s)
	for _, limit := range limits {
		var one descriptor
		for _, a := range limit.Actions {
			key, value, ok := a.send(s)
			if !ok {
				one.Entries = nil
				break
			}
			one.Entries = append(one.Entries, entry{key, value})
		}
		if one.Entries != nil {
			sent = append(sent, one)
		}
	}
	if sent == nil {
		return true
	}
	body, err := json.Marshal(map[string]any{"domain": d.domain, "descriptors": sent})
	if err != nil {
		d.t.Fatal(err)
	}
	response, err := http.Post(d.url+"/json", "application/json", bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
		d.t.Fatalf("the service answers %s", response.Status)
	}
	return response.StatusCode == http.StatusOK
}
