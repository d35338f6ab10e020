package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const document = "docs/observability.md"

// documented compares the document's table with what Envoy exposes, and Prometheus has of it. It is to name each
// value of a label that does not come from the configuration.
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
	exposed, err := io.ReadAll(resp.Body)
	testenv.OK(t, err)
	// https://prometheus.io/docs/instrumenting/exposition_formats/
	for _, kind := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(string(exposed), -1) {
		found, err := s.prometheus.Query(`{__name__=~"` + kind[1] + `(_bucket|_sum|_count)?"}`)
		testenv.OK(t, err)
		labels := map[string]bool{}
		for _, series := range found {
			for label, value := range series.Metric {
				switch label {
				case "__name__", "instance", "job", "le":
					continue
				case "rule", "limit", "rank", "redis": // as configured
				default:
					testenv.Same(t, fmt.Sprintf("that %s explains %s %q", document, label, value),
						strings.Contains(text, "`"+value+"`"), true)
				}
				labels[label] = true
			}
		}
		metrics = append(metrics, kind[1]+" "+kind[2]+" "+strings.Join(slices.Sorted(maps.Keys(labels)), ","))
	}
	slices.Sort(table)
	slices.Sort(metrics)
	testenv.SameList(t, "the metrics of Envoy, and of "+document, metrics, table)
}
