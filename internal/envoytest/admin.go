package envoytest

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Stats returns Envoy's counters and gauges whose name has the given text.
// https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--stats
func (e *Envoy) Stats(filter string) map[string]int64 {
	e.t.Helper()
	resp, err := http.Get(e.Admin + "/stats?filter=" + url.QueryEscape(filter))
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	stats := map[string]int64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ": ")
		if value, err := strconv.ParseInt(text, 10, 64); err == nil { // histograms and texts have no number
			stats[name] = value
		}
	}
	if err := lines.Err(); err != nil {
		e.t.Fatal(err)
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
