package observe

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func readDocument(t testing.TB) string {
	t.Helper()
	text := testenv.File(t, "docs/observability.md")
	return string(text)
}

// blocks are the code blocks of a language in the document.
func blocks(t testing.TB, language string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(readDocument(t), -1) {
		found = append(found, m[1])
	}
	return found
}

// exposed is a metric as Envoy shows it to Prometheus.
type exposed struct {
	kind   string
	labels map[string]map[string]bool // values by name
}

func (e exposed) String() string {
	return e.kind + " " + strings.Join(slices.Sorted(maps.Keys(e.labels)), ",")
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`^(\w+?)(?:_bucket|_sum|_count)?\{(.*)\} \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// exposition reads Envoy's answer to Prometheus.
// https://prometheus.io/docs/instrumenting/exposition_formats/
func (s *scene) exposition(t *testing.T) map[string]exposed {
	t.Helper()
	resp, err := http.Get(s.Admin + "/stats/prometheus?filter=%5Ewasmcustom")
	testenv.OK(t, err)
	defer resp.Body.Close()
	metrics := map[string]exposed{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if m := typeLine.FindStringSubmatch(lines.Text()); m != nil {
			metrics[m[1]] = exposed{m[2], map[string]map[string]bool{}}
			continue
		}
		m := sampleLine.FindStringSubmatch(lines.Text())
		if m == nil {
			t.Errorf("Envoy answered Prometheus %q", lines.Text())
			continue
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if labels := metrics[m[1]].labels; pair[1] != "le" {
				if labels[pair[1]] == nil {
					labels[pair[1]] = map[string]bool{}
				}
				labels[pair[1]][pair[2]] = true
			}
		}
	}
	return metrics
}

// documented compares the document's table with what Envoy exposes.
func (s *scene) documented(t *testing.T) {
	table := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(sluice_\\w+)` \\| (\\w+) \\| (.*?) ?\\| ")
	for _, m := range row.FindAllStringSubmatch(readDocument(t), -1) {
		labels := strings.Split(strings.NewReplacer("`", "", " ", "").Replace(m[3]), ",")
		slices.Sort(labels)
		table[m[1]] = m[2] + " " + strings.Join(labels, ",")
	}
	metrics := map[string]string{}
	for name, e := range s.exposition(t) {
		metrics[name] = e.String()
		for label, values := range e.labels {
			s.explained(t, label, values)
		}
	}
	if !maps.Equal(table, metrics) {
		t.Errorf("docs/observability.md has\n%s\nEnvoy has\n%s", sorted(table), sorted(metrics))
	}
}

// explained expects the document to name each value of a label that does not come
// from the configuration.
func (s *scene) explained(t *testing.T, label string, values map[string]bool) {
	t.Helper()
	if slices.Contains([]string{"rule", "limit", "rank", "redis"}, label) {
		return
	}
	for value := range values {
		if !strings.Contains(readDocument(t), "`"+value+"`") {
			t.Errorf("docs/observability.md does not explain %s %q", label, value)
		}
	}
}

func sorted(table map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintln(&b, "   ", name, table[name])
	}
	return b.String()
}
