package observe

import (
	"bufio"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// blocks are the code blocks of a language in the document.
func blocks(t testing.TB, language string) (found []string) {
	t.Helper()
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```")
	for _, m := range block.FindAllStringSubmatch(string(testenv.File(t, document)), -1) {
		found = append(found, m[1])
	}
	return found
}

const document = "docs/observability.md"

// exposed is a metric as Envoy shows it to Prometheus.
type exposed struct {
	kind   string
	labels map[string]map[string]bool // values by name
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`^(\w+?)(?:_bucket|_sum|_count)?\{(.*)\} \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// documented compares the document's table with what Envoy exposes. It is to name each value of a label
// that does not come from the configuration.
func (s *scene) documented(t *testing.T) {
	text := string(testenv.File(t, document))
	var table, metrics []string
	row := regexp.MustCompile("(?m)^\\| `(sluice_\\w+)` \\| (\\w+) \\| (.*?) ?\\| ")
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		labels := strings.Split(strings.NewReplacer("`", "", " ", "").Replace(m[3]), ",")
		slices.Sort(labels)
		table = append(table, m[1]+" "+m[2]+" "+strings.Join(labels, ","))
	}
	resp, err := http.Get(s.Admin + "/stats/prometheus?filter=%5Ewasmcustom")
	testenv.OK(t, err)
	defer resp.Body.Close()
	all := map[string]exposed{} // https://prometheus.io/docs/instrumenting/exposition_formats/
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if m := typeLine.FindStringSubmatch(lines.Text()); m != nil {
			all[m[1]] = exposed{m[2], map[string]map[string]bool{}}
			continue
		}
		m := sampleLine.FindStringSubmatch(lines.Text())
		if m == nil {
			t.Errorf("Envoy answered Prometheus %q", lines.Text())
			continue
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if labels := all[m[1]].labels; pair[1] != "le" {
				if labels[pair[1]] == nil {
					labels[pair[1]] = map[string]bool{}
				}
				labels[pair[1]][pair[2]] = true
			}
		}
	}
	for name, e := range all {
		metrics = append(metrics, name+" "+e.kind+" "+strings.Join(slices.Sorted(maps.Keys(e.labels)), ","))
		for label, values := range e.labels {
			for value := range values {
				isConfigured := slices.Contains([]string{"rule", "limit", "rank", "redis"}, label)
				if !isConfigured && !strings.Contains(text, "`"+value+"`") {
					t.Errorf("%s does not explain %s %q", document, label, value)
				}
			}
		}
	}
	slices.Sort(table)
	slices.Sort(metrics)
	testenv.SameList(t, "the metrics of Envoy, and of "+document, metrics, table)
}
