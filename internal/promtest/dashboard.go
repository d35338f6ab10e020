package promtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Dashboard is the part of a dashboard of deploy/grafana that the tests read.
// https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
type Dashboard struct {
	Title       string
	Panels      []Panel
	Annotations struct{ List []struct{ Name, Expr string } }
	Templating  struct {
		List []struct{ Name, Type, Definition string }
	}
}

// Panel is one picture of the dashboard, made of its targets' queries.
type Panel struct {
	ID          int
	Type, Title string
	Targets     []struct{ Expr string }
	FieldConfig struct {
		Defaults struct {
			Unit   string
			Custom struct{ Stacking struct{ Mode string } }
		}
	}
}

// ReadDashboard reads the shipped dashboard of limiters.
func ReadDashboard(t testing.TB) *Dashboard {
	t.Helper()
	return readDashboard(t, "sluice.json")
}

func readDashboard(t testing.TB, name string) *Dashboard {
	t.Helper()
	text, err := os.ReadFile(Deployed(t, "grafana", name))
	if err != nil {
		t.Fatal(err)
	}
	d := new(Dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Interpolate sets Grafana's variables, as with "All" chosen.
func Interpolate(expr, rateInterval string) string {
	return strings.NewReplacer("$job", ".*", "$instance", ".*", "$rule", ".*",
		"$__rate_interval", rateInterval, "$__interval", rateInterval).Replace(expr)
}

// queries are those of every panel and annotation, by their titles. Of annotations it is
// what they compare with zero, which has data while nothing happens.
func (d *Dashboard) queries() (all []question) {
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, question{"panel " + p.Title, Interpolate(target.Expr, "1m")})
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, question{"annotation " + a.Name, strings.TrimSuffix(Interpolate(a.Expr, "1m"), " > 0")})
	}
	return all
}

// variables returns what lacks values to choose from: those that
// label_values(<query>, <label>) stands for.
func (p *Prometheus) variables(d *Dashboard) error {
	var wrong []error
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		arguments := strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")")
		comma := strings.LastIndex(arguments, ", ")
		if comma < 0 {
			wrong = append(wrong, fmt.Errorf("variable %s: %s is not label_values", v.Name, v.Definition))
			continue
		}
		values, err := p.Values(Interpolate(arguments[:comma], ""), arguments[comma+2:])
		if _, empty := values[""]; err != nil || len(values) == 0 || empty {
			wrong = append(wrong, fmt.Errorf("variable %s: values %v, %v", v.Name, values, err))
		}
	}
	return errors.Join(wrong...)
}
