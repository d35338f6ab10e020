package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
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
	for _, name := range []string{"address", "nested", "routes", "matches", "vip"} {
		t.Run(name, func(t *testing.T) {
			// Limits that a test reaches, and windows that it does not leave.
			service := units.ReplaceAllString(converted(t, name, "ratelimit.yaml"), "unit: day")
			service = counts.ReplaceAllStringFunc(service, func(text string) string {
				n, _ := strconv.Atoi(counts.FindStringSubmatch(text)[1])
				return fmt.Sprintf("requests_per_unit: %d", 3+n%20)
			})
			d := newDuel(t, service, converted(t, name, "envoy.yaml"))
			random := rand.New(rand.NewPCG(1, uint64(len(name))))
			for range 600 {
				d.fight(t, plain.draw(random))
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

// built is the path of the service, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	return buildService(context.Background(), root)
})

// startLimiter starts the service on a Redis of its own, until the test ends.
func startLimiter(t *testing.T, s *service, limits string) place {
	t.Helper()
	binary, err := built()
	testenv.OK(t, err)
	at := place{
		service: testenv.FreePort(t), health: testenv.FreePort(t), debug: testenv.FreePort(t),
		redis: redistest.Start(t).Port,
	}
	b := &bench{dir: t.TempDir(), service: binary}
	_, err = b.startService(context.Background(), s, limits, at)
	testenv.OK(t, err)
	t.Cleanup(func() { b.stop(0) })
	return at
}

// duel is the service and Sluice with one configuration.
type duel struct {
	routing
	url    string
	domain string

	json     []byte // what the files were converted to
	rules    *rule.Set
	compiled *explain.Expressions
	matcher  rule.Matcher
	states   map[string][]algo.State
	tainted  map[string]bool // the service has counted rejected requests there
	admitted int             // by both
	rejected int
}

func newDuel(t *testing.T, limits, envoy string) *duel {
	t.Helper()
	result, err := convert.RateLimit(convert.File{Name: "ratelimit.yaml", Text: []byte(limits)},
		convert.File{Name: "envoy.yaml", Text: []byte(envoy)})
	testenv.OK(t, err)
	cfg, err := config.Parse(result.JSON)
	testenv.OK(t, err)
	d := &duel{
		json: result.JSON, compiled: &explain.Expressions{},
		states: map[string][]algo.State{}, tainted: map[string]bool{},
		domain: regexp.MustCompile(`domain: (\S+)`).FindStringSubmatch(limits)[1],
	}
	d.rules, err = rule.Compile(cfg, d.compiled)
	testenv.OK(t, err)
	var tree yaml.Node
	testenv.OK(t, yaml.Unmarshal([]byte(envoy), &tree))
	testenv.OK(t, d.read(&tree))
	d.url = "http://" + addr(startLimiter(t, &service{}, limits).health)
	testenv.Wait(t, time.Minute, func() error { return process.AnswersOK(t.Context(), d.url+"/healthcheck") })
	return d
}

// fight has both sides decide a request.
func (d *duel) fight(t *testing.T, v visit) {
	t.Helper()
	limits, route, routed := d.limits(v)
	if !routed {
		return // 404 in any case
	}
	service := d.service(t, v, limits)
	sluice, tags := d.sluice(t, v, route)
	tainted := slices.ContainsFunc(tags, func(tag string) bool { return d.tainted[tag] })
	switch {
	case service == sluice && sluice:
		d.admitted++
	case service == sluice:
		d.rejected++
	case service:
		t.Errorf("%+v: the service admits it, Sluice rejects it", v)
	case !tainted:
		t.Errorf("%+v: the service rejects it, Sluice admits it, and nothing that was rejected before explains it", v)
	}
	if !service && len(tags) > 1 {
		for _, tag := range tags {
			d.tainted[tag] = true
		}
	}
}

// sluice decides by the converted rules. It returns the tags of those that apply.
func (d *duel) sluice(t *testing.T, v visit, route string) (admitted bool, tags []string) {
	t.Helper()
	req, err := explain.NewRequest("GET", "http://"+v.host+v.path)
	testenv.OK(t, err)
	testenv.OK(t, req.SetClientIP(v.ip))
	testenv.OK(t, req.SetProperty("xds.route_name="+route))
	for name, value := range v.headers {
		testenv.OK(t, req.AddHeader(name+": "+value))
	}
	req.Use(d.compiled)
	applied, _, _ := d.rules.Apply(req, &d.matcher)
	now, after := time.Now().UnixMicro(), map[string][]algo.State{}
	admitted = true
	for _, a := range applied {
		if a.Limits == nil {
			continue
		}
		tag, n := string(a.Tag), len(a.Limits.Limits)
		tags = append(tags, tag)
		states, out := make([]algo.State, n), make([]algo.Decision, n)
		for i, before := range d.states[tag] {
			states[i] = slices.Clone(before)
		}
		if a.Limits.Plan.Decide(states, now, a.Limits.Plan.Each(a.Cost), out) {
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
	return admitted, tags
}

// service decides by the descriptors that Envoy would send.
func (d *duel) service(t *testing.T, v visit, limits []limitModel) (admitted bool) {
	t.Helper()
	var sent []any
	for _, limit := range limits {
		if entries := limit.send(v); entries != nil {
			sent = append(sent, map[string]any{"entries": entries})
		}
	}
	if sent == nil {
		return true
	}
	body, err := json.Marshal(map[string]any{"domain": d.domain, "descriptors": sent})
	testenv.OK(t, err)
	response, err := http.Post(d.url+"/json", "application/json", bytes.NewReader(body))
	testenv.OK(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("the service answers %s", response.Status)
	}
	return response.StatusCode == http.StatusOK
}
