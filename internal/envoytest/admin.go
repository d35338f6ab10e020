package envoytest

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Stats returns Envoy's counters and gauges whose name has the given text.
// https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--stats
func (e *Envoy) Stats(filter string) map[string]int64 {
	e.t.Helper()
	_, answer, err := testenv.Send(http.MethodGet, e.Admin+"/stats?filter="+url.QueryEscape(filter), "")
	testenv.OK(e.t, err)
	stats := map[string]int64{}
	for line := range strings.SplitSeq(answer, "\n") {
		name, text, _ := strings.Cut(line, ": ")
		if value, err := strconv.ParseInt(text, 10, 64); err == nil { // histograms and texts have no number
			stats[name] = value
		}
	}
	return stats
}

// ResidentKB returns how much memory Envoy holds, in KB, with that of the
// plugin's VMs in it.
func (e *Envoy) ResidentKB() (kb int) {
	e.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.PID()))
	if err != nil {
		e.t.Fatal(err)
	}
	_, resident, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(resident, &kb); err != nil {
		e.t.Fatalf("no VmRSS in %s", status)
	}
	return kb
}
