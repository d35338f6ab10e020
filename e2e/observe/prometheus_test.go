package observe

import (
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

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// limit bounds the wait for a condition, on a machine under load.
const limit = 60 * time.Second

// interval is how often the tests' Prometheus scrapes, and evaluates rules.
const interval = 500 * time.Millisecond

// deployed is the path of a file of deploy/.
func deployed(t testing.TB, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{testenv.Root(t), "deploy"}, parts...)...)
}

// prometheus is a running Prometheus.
type prometheus struct {
	t   testing.TB
	url string
}

// startPrometheus runs a Prometheus with the shipped configuration and rules, but
// for the target and the intervals.
func startPrometheus(t testing.TB, target string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, scrapeConfig(t, target), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	process := testenv.Run(t, nil, testenv.Tool(t, "prometheus"), "--config.file", config,
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", addr, "--log.level", "warn")
	p := &prometheus{t: t, url: "http://" + addr}
	testenv.Wait(t, limit, func() error {
		select {
		case <-process.Exited():
			t.Fatal("prometheus ended at its start")
		default:
		}
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/-/ready: %s", resp.Status)
		}
		return nil
	})
	return p
}

// scrapeConfig is deploy/prometheus/prometheus.yaml with the test's changes.
func scrapeConfig(t testing.TB, target string) []byte {
	t.Helper()
	text, err := os.ReadFile(deployed(t, "prometheus", "prometheus.yaml"))
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
		c.Global[name] = interval.String()
	}
	for i, name := range c.Rules {
		c.Rules[i] = deployed(t, "prometheus", name)
	}
	c.Scrapes[0]["static_configs"] = []any{map[string]any{"targets": []string{target}}}
	if text, err = yaml.Marshal(c); err != nil {
		t.Fatal(err)
	}
	return text
}

// get reads one answer of the API.
// https://prometheus.io/docs/prometheus/latest/querying/api/
func (p *prometheus) get(path string, params url.Values, data any) error {
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

// series is one result of a query: its labels, and its values.
type series struct {
	Metric map[string]string
	Value  point
	Values []point
}

// point is a value at a Unix time in seconds.
type point struct{ at, value float64 }

func (p *point) UnmarshalJSON(text []byte) error {
	var pair [2]any
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	at, _ := pair[0].(float64)
	value, _ := pair[1].(string)
	parsed, err := strconv.ParseFloat(value, 64)
	*p = point{at, parsed}
	return err
}

// query evaluates an expression now. What is no number is left out.
func (p *prometheus) query(expr string) (found []series, err error) {
	var data struct{ Result []series }
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	for _, s := range data.Result {
		if !math.IsNaN(s.Value.value) {
			found = append(found, s)
		}
	}
	return found, nil
}

// values evaluates an expression now, by the values of some labels: "api.v1 limited".
func (p *prometheus) values(expr string, labels ...string) (map[string]int, error) {
	found, err := p.query(expr)
	values := map[string]int{}
	for _, s := range found {
		key := ""
		for _, label := range labels {
			key += " " + s.Metric[label]
		}
		values[key[min(1, len(key)):]] += int(s.Value.value)
	}
	return values, err
}

// during evaluates an expression from one time to another.
func (p *prometheus) during(expr string, from, to time.Time) (found []series, err error) {
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	var data struct{ Result []series }
	err = p.get("/api/v1/query_range", url.Values{
		"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {interval.String()},
	}, &data)
	return data.Result, err
}
