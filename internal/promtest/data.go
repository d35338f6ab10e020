package promtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// question is an expression that should have data, and who asks it.
type question struct{ asker, expr string }

// Everything is a configuration of the plugin, with Redis in a cluster, that has every
// metric: each query and each alert can have data from it. Every request uses it.
const Everything = `{"redis": {"cluster": "redis", "timeout": "10s"},
	"top_offenders": {"size": 10, "interval": "1s"},
	"rules": [
		{"name": "per-key", "limits": [{"name": "an-hour", "algorithm": "fixed_window", "limit": 3, "window": "1h"}]},
		{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]},
		{"name": "in_flight", "limits": [{"algorithm": "concurrency", "limit": 100}]},
		{"name": "spill", "over": {"set_headers": {"x-over": "1"}},
		 "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}
	]}`

// Alone is Everything without Redis.
const Alone = `{"top_offenders": {"size": 10, "interval": "1s"},
	"rules": [
		{"name": "per-key", "limits": [{"name": "an-hour", "algorithm": "fixed_window", "limit": 3, "window": "1h"}]},
		{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]},
		{"name": "spill", "over": {"set_headers": {"x-over": "1"}},
		 "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}
	]}`

// OfRedis are the metrics that a configuration without Redis does not have.
var OfRedis = regexp.MustCompile(`sluice_(redis|deny_cache|lease|slots|overrides|in_flight)_`)

// ExpectData waits until every query of the dashboard has data, and what every alert
// compares and every recording rule records, and a request has been rejected. Before each look
// it sends traffic. It does not ask for expressions that name a metric of without.
func (p *Prometheus) ExpectData(traffic func(), without *regexp.Regexp) {
	p.t.Helper()
	testenv.Wait(p.t, Limit, func() error {
		traffic()
		return errors.Join(p.dashboardData(without), p.ruleData(without), p.rejection())
	})
}

// ExpectRelayData waits until every query of the relays' dashboard has data, and what every alert about
// relays compares.
func (p *Prometheus) ExpectRelayData() {
	p.t.Helper()
	questions := readDashboard(p.t, "relay.json").queries()
	testenv.Within(p.t, "the number of queries of relay.json", len(questions), 5, 100)
	alerts, err := p.Rules("alert")
	if err != nil {
		p.t.Fatal(err)
	}
	before := len(questions)
	for name, a := range alerts {
		if OfRelay(name) {
			questions = append(questions, question{"alert " + name, inner(a.Query)})
		}
	}
	testenv.Within(p.t, "the number of alerts about relays", len(questions)-before, 3, 100)
	testenv.Wait(p.t, Limit, func() error { return unanswered(questions, nil, p.Query) })
}

// rejection reports whether Prometheus has seen that a request was rejected.
func (p *Prometheus) rejection() error {
	found, err := p.Query(`sluice_requests_total{outcome="limited",rule=""} > 0`)
	if err == nil && len(found) == 0 {
		err = errors.New("no request has been rejected")
	}
	return err
}

// ExpectLabels expects the metrics of Everything to have their labels, with a rule and a
// limit of it named as given.
func (p *Prometheus) ExpectLabels(rule, limit string) {
	p.t.Helper()
	for _, expr := range []string{
		fmt.Sprintf(`sluice_rule_requests_total{rule=%q,outcome="limited"} > 0`, rule),
		fmt.Sprintf(`sluice_over_limit_total{rule=%q,limit=%q} > 0`, rule, limit),
		fmt.Sprintf(`sluice_near_limit_total{rule=%q,limit=%q}`, rule, limit),
		`sluice_requests_total{outcome="limited",rule=""} > 0`,
		`sluice_top_offenders_rejections{rank="10"}`,
	} {
		if found, err := p.Query(expr); err != nil || len(found) != 1 {
			p.t.Errorf("%s: %v, %v; want one", expr, found, err)
		}
	}
}

// ExpectAlert waits until an alert is pending or firing.
func (p *Prometheus) ExpectAlert(name string) {
	p.t.Helper()
	testenv.Wait(p.t, Limit, func() error {
		alerts, err := p.Rules("alert")
		if err != nil {
			return err
		}
		if a := alerts[name]; a.State != "pending" && a.State != "firing" {
			return fmt.Errorf("%s is %q (%s): %s", name, a.State, a.LastError, a.Query)
		}
		return nil
	})
}

// ExpectDashboard expects every query of the dashboard to have data.
func (p *Prometheus) ExpectDashboard(t testing.TB) {
	t.Helper()
	if err := p.dashboardData(nil); err != nil {
		t.Error(err)
	}
}

func (p *Prometheus) dashboardData(without *regexp.Regexp) error {
	d := ReadDashboard(p.t)
	wrong := []error{p.variables(d)}
	questions := d.queries()
	if len(questions) < 25 {
		wrong = append(wrong, fmt.Errorf("the dashboard has %d queries", len(questions)))
	}
	for _, q := range questions {
		if strings.Contains(q.expr, "$") {
			wrong = append(wrong, fmt.Errorf("%s: %s has a variable that is not known", q.asker, q.expr))
		}
	}
	return errors.Join(append(wrong, unanswered(questions, without, p.Query))...)
}

// unanswered says which questions have no data, of those that name no metric of without.
func unanswered(questions []question, without *regexp.Regexp, ask func(expr string) ([]Series, error)) error {
	var wrong []error
	for _, q := range questions {
		if without != nil && without.MatchString(q.expr) {
			continue
		}
		if found, err := ask(q.expr); err != nil || len(found) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: %s: %d results, %v", q.asker, q.expr, len(found), err))
		}
	}
	return errors.Join(wrong...)
}

// comparison is an operator that lets only those series through for which it holds; with
// "bool" it tells of each whether it does.
// https://prometheus.io/docs/prometheus/latest/querying/operators/#comparison-binary-operators
var (
	comparison = regexp.MustCompile(`\s(==|!=|>=|<=|>|<)\s`)
	absence    = regexp.MustCompile(`^absent\((.*)\)$`)
)

// inner is the part of an alert's expression that has series whether the alert is raised
// or not.
func inner(expr string) string {
	return comparison.ReplaceAllString(absence.ReplaceAllString(expr, "$1"), " $1 bool ")
}

// OfRelay reports whether an alert is about relays, which are scraped as a job of their own.
// deploy/prometheus/rules_test.yaml has their series.
func OfRelay(alert string) bool { return strings.HasPrefix(alert, "SluiceRelay") }

func (p *Prometheus) ruleData(without *regexp.Regexp) error {
	alerts, err := p.Rules("alert")
	if err != nil {
		return err
	}
	records, err := p.Rules("record")
	if err != nil {
		return err
	}
	var wrong []error
	if len(alerts) < 16 || len(records) < 8 {
		wrong = append(wrong, fmt.Errorf("%d alerts and %d recording rules were loaded", len(alerts), len(records)))
	}
	var questions []question
	for name, a := range alerts {
		if OfRelay(name) {
			continue // no relay is scraped
		}
		if a.Health != "ok" {
			wrong = append(wrong, fmt.Errorf("%s: health %q: %s", name, a.Health, a.LastError))
		}
		questions = append(questions, question{"alert " + name, inner(a.Query)})
	}
	for name := range records {
		questions = append(questions, question{"recording rule", name})
	}
	return errors.Join(append(wrong, unanswered(questions, without, p.evaluate))...)
}

// ExpectLog waits until an access log, in what Envoy has printed, says that a request was
// rejected by the limit of Everything, and whom.
func ExpectLog(t testing.TB, printed func() string) {
	t.Helper()
	testenv.Wait(t, Limit, func() error {
		for line := range strings.Lines(printed()) {
			var entry struct{ Sluice, Rejected string }
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Sluice != "limited:per-key" {
				continue
			}
			if strings.HasPrefix(entry.Rejected, `{"limit":"an-hour","identity":"",`) {
				return nil
			}
			return fmt.Errorf("the access log has %s", line)
		}
		return errors.New("no rejection is in the access log")
	})
}
