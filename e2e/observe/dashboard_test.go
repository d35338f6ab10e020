package observe

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// dashboard is what the tests read of deploy/grafana/sluice.json.
// https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
type dashboard struct {
	Title       string
	Panels      []panel
	Annotations struct{ List []struct{ Name, Expr string } }
	Templating  struct {
		List []struct{ Name, Type, Definition string }
	}
}

type panel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct{ Stacking struct{ Mode string } }
		}
	}
}

func readDashboard(t testing.TB) *dashboard {
	t.Helper()
	text, err := os.ReadFile(deployed(t, "grafana", "sluice.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := new(dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// interpolate sets Grafana's variables, as with "All" chosen.
func interpolate(expr, rateInterval string) string {
	return strings.NewReplacer("$job", ".*", "$instance", ".*", "$rule", ".*",
		"$__rate_interval", rateInterval, "$__interval", rateInterval).Replace(expr)
}

// dashboard expects every query of every panel to have data.
func (s *scene) dashboard(t *testing.T) {
	d := readDashboard(t)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			expr := interpolate(target.Expr, "1m")
			if strings.Contains(expr, "$") {
				t.Errorf("%s: %s has a variable that is not known", p.Title, expr)
			}
			if found, err := s.prometheus.query(expr); err != nil || len(found) == 0 {
				t.Errorf("%s: %s: %d results, %v", p.Title, expr, len(found), err)
			}
		}
	}
	if queries < 25 {
		t.Errorf("the dashboard has %d queries", queries)
	}
	for _, a := range d.Annotations.List {
		always := strings.TrimSuffix(interpolate(a.Expr, "1m"), " > 0")
		if found, err := s.prometheus.query(always); err != nil || len(found) == 0 {
			t.Errorf("annotation %s: %s: %d results, %v", a.Name, always, len(found), err)
		}
	}
	s.variables(t, d)
}

// variables expects every variable to have values to choose from: those that
// label_values(<query>, <label>) stands for.
func (s *scene) variables(t *testing.T, d *dashboard) {
	t.Helper()
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		arguments := strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")")
		comma := strings.LastIndex(arguments, ", ")
		if comma < 0 {
			t.Errorf("variable %s: %s is not label_values", v.Name, v.Definition)
			continue
		}
		values, err := s.prometheus.values(interpolate(arguments[:comma], ""), arguments[comma+2:])
		if _, empty := values[""]; err != nil || len(values) == 0 || empty {
			t.Errorf("variable %s: values %v, %v", v.Name, values, err)
		}
	}
}
