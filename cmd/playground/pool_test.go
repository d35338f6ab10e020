package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// pooled is the page's part about the pool.
type pooled struct {
	Requests []struct {
		Sender int
		Micros int64
	}
	Admitted []bool
	Text     string
	JSON     string
	Flooder  string // its class
	Tenant   string // that of the others
}

const readPooled = `(p => ({requests: $("pool").requests, admitted: $("pool").admitted, text: $("shared").textContent,
	JSON: poolConfiguration(p), flooder: p.flooder_class, tenant: p.tenant_class}))(readPool($("pool")))`

// TestPageSharesAsSluiceDoes compares who is admitted on the page with what the configuration that
// it shows does in the plugin's own code: rules, keys, classes, and what a worker remembers.
func TestPageSharesAsSluiceDoes(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, fields := range []map[string]string{
		{"sharing": "limit"},
		{"sharing": "ceiling"},
		{"tenant_class": "bulk", "normal": "90"},
		{"flooder_class": "critical", "bulk": "1"},
		{"sharing": "guarantee"},
		{"sharing": "both", "guarantee": "20", "guarantee_burst": "7", "flooder": "200", "burst": "30", "limit": "70"},
	} {
		for name, value := range fields {
			b.eval(fmt.Sprintf(`$("pool").elements[%q].value = %q`, name, value))
		}
		var page pooled
		testenv.OK(t, json.Unmarshal(b.eval("updatePool(); "+readPooled), &page))
		if _, err := config.Parse([]byte(page.JSON)); err != nil {
			t.Fatalf("the page's configuration has mistakes: %v\n%s", err, page.JSON)
		}
		// The embedded store decides, so that no time passes on the way to Redis.
		cfg, err := config.Parse([]byte(strings.Replace(page.JSON, `"redis": {"cluster": "redis"},`, "", 1)))
		testenv.OK(t, err)
		rules, err := rule.Compile(cfg, nil)
		testenv.OK(t, err)
		var lines strings.Builder // the requests as an access log that has their classes and tenants
		for _, r := range page.Requests {
			class := page.Tenant
			if r.Sender == senders-1 {
				class = page.Flooder
			}
			at := time.Unix(1_800_000_000, 0).UTC().Add(time.Duration(r.Micros) * time.Microsecond)
			fmt.Fprintf(&lines, `{"start_time": %q, "method": "GET", "path": "/", "x-tenant": "%d", "x-priority": %q}`+"\n",
				at.Format(time.RFC3339Nano), r.Sender, class)
		}
		log, err := simulate.ReadLog(strings.NewReader(lines.String()), nil)
		testenv.OK(t, err)
		want := slices.Repeat([]bool{true}, len(page.Requests))
		simulate.Run(cfg, rules, log, simulate.Options{
			Envoys: 1, Workers: 1,
			Refused: func(number int, _, _ string) { want[number] = false },
		})
		testenv.Same(t, fmt.Sprint(fields, ": that some are rejected"), slices.Contains(want, false), true)
		for i, r := range page.Requests {
			if page.Admitted[i] != want[i] {
				t.Fatalf("%v: request %d, %+v: the page admits it: %v, the plugin: %v", fields, i, r, page.Admitted[i], want[i])
			}
		}
	}
}
