// Package promtest runs a real Prometheus with the configuration, the rules and the
// dashboard of deploy/, for tests of what operators see.
package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Limit bounds the wait for a condition, on a machine under load.
const Limit = 60 * time.Second

// Interval is how often the tests' Prometheus scrapes, and evaluates rules.
const Interval = 500 * time.Millisecond

// Deployed is the path of a file of deploy/.
func Deployed(t testing.TB, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{testenv.Root(t), "deploy"}, parts...)...)
}

// Prometheus is a running Prometheus.
type Prometheus struct {
	t   testing.TB
	url string
}

// Start runs a Prometheus with the shipped configuration and rules, but
// for the target and the intervals.
func Start(t testing.TB, target string) *Prometheus {
	t.Helper()
	return start(t, "envoy", target)
}

// StartOfRelay is Start for a relay's port for metrics.
func StartOfRelay(t testing.TB, target string) *Prometheus {
	t.Helper()
	return start(t, "sluice-relay", target)
}

func start(t testing.TB, job, target string) *Prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, scrapeConfig(t, job, target), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	p := &Prometheus{t: t, url: "http://" + addr}
	server := testenv.Run(t, nil, testenv.Tool(t, "prometheus"), "--config.file", config,
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr, "--log.level", "warn")
	server.Await(Limit, func(ctx context.Context) error { return process.AnswersOK(ctx, p.url+"/-/ready") })
	return p
}

// scrapeConfig is deploy/prometheus/prometheus.yaml with the test's changes: one job has a target.
func scrapeConfig(t testing.TB, job, target string) []byte {
	t.Helper()
	text, err := os.ReadFile(Deployed(t, "prometheus", "prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Global  map[string]string `yaml:"global"`
		Rules   []string          `yaml:"rule_files"`
		Scrapes []map[string]any  `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	for name := range c.Global {
		c.Global[name] = Interval.String()
	}
	for i, name := range c.Rules {
		c.Rules[i] = Deployed(t, "prometheus", name)
	}
	known := false
	for _, scrape := range c.Scrapes {
		targets := []string{}
		if scrape["job_name"] == job {
			targets, known = append(targets, target), true
		}
		scrape["static_configs"] = []any{map[string]any{"targets": targets}}
	}
	if !known {
		t.Fatalf("prometheus.yaml has no job %q", job)
	}
	if text, err = yaml.Marshal(c); err != nil {
		t.Fatal(err)
	}
	return text
}

// get reads one answer of the API.
// https://prometheus.io/docs/prometheus/latest/querying/api/
func (p *Prometheus) get(path string, params url.Values, data any) error {
	resp, err := http.Get(p.url + path + "?" + params.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, resp.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return nil
}

// Series is one result of a query: its labels, and its values.
type Series struct {
	Metric map[string]string
	Value  Point
}

// Point is a value at a Unix time in seconds.
type Point struct{ At, Value float64 }

func (p *Point) UnmarshalJSON(text []byte) error {
	var pair [2]any
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	at, _ := pair[0].(float64)
	value, _ := pair[1].(string)
	parsed, err := strconv.ParseFloat(value, 64)
	*p = Point{at, parsed}
	return err
}

// Query evaluates an expression now. It leaves out values that are not numbers.
func (p *Prometheus) Query(expr string) (found []Series, err error) {
	all, err := p.evaluate(expr)
	for _, s := range all {
		if !math.IsNaN(s.Value.Value) {
			found = append(found, s)
		}
	}
	return found, err
}

func (p *Prometheus) evaluate(expr string) ([]Series, error) {
	var data struct{ Result []Series }
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	return data.Result, nil
}

// Values evaluates an expression now, by the values of some labels: "api.v1 limited".
func (p *Prometheus) Values(expr string, labels ...string) (map[string]int, error) {
	found, err := p.Query(expr)
	values := map[string]int{}
	for _, s := range found {
		key := ""
		for _, label := range labels {
			key += " " + s.Metric[label]
		}
		values[key[min(1, len(key)):]] += int(s.Value.Value)
	}
	return values, err
}

// Rule is one of Prometheus' rules.
type Rule struct {
	Name, Query, State, Health, LastError string
}

// Rules returns all rules of a kind, "alert" or "record", by name.
func (p *Prometheus) Rules(kind string) (map[string]Rule, error) {
	var data struct{ Groups []struct{ Rules []Rule } }
	if err := p.get("/api/v1/rules", url.Values{"type": {kind}}, &data); err != nil {
		return nil, err
	}
	rules := map[string]Rule{}
	for _, group := range data.Groups {
		for _, r := range group.Rules {
			rules[r.Name] = r
		}
	}
	return rules, nil
}
