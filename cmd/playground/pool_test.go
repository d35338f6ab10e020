package main

import (
	"fmt"
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

// set gives fields of the pool's form other values, and reads what the page makes of them.
func (b *browser) set(fields map[string]string) (p pooled) {
	b.t.Helper()
	for name, value := range fields {
		b.eval(fmt.Sprintf(`$("pool").elements[%q].value = %q`, name, value), nil)
	}
	b.eval("updatePool(); "+readPooled, &p)
	return p
}

// log is the requests as an access log that has their classes and tenants.
func (p *pooled) log() string {
	var lines strings.Builder
	begin := time.Unix(1_800_000_000, 0).UTC()
	for _, r := range p.Requests {
		class := p.Tenant
		if r.Sender == senders-1 {
			class = p.Flooder
		}
		fmt.Fprintf(&lines, `{"start_time": %q, "method": "GET", "path": "/", "x-tenant": "%d", "x-priority": %q}`+"\n",
			begin.Add(time.Duration(r.Micros)*time.Microsecond).Format(time.RFC3339Nano), r.Sender, class)
	}
	return lines.String()
}

// simulated says what the page's configuration admits of its requests in "sluice simulate". The
// embedded store decides, so that no time passes on the way to Redis.
func (p *pooled) simulated(t *testing.T) []bool {
	t.Helper()
	if _, err := config.Parse([]byte(p.JSON)); err != nil {
		t.Fatalf("the page's configuration has mistakes: %v\n%s", err, p.JSON)
	}
	cfg, err := config.Parse([]byte(strings.Replace(p.JSON, `"redis": {"cluster": "redis"},`, "", 1)))
	testenv.OK(t, err)
	rules, err := rule.Compile(cfg, nil)
	testenv.OK(t, err)
	log, err := simulate.ReadLog(strings.NewReader(p.log()), nil)
	testenv.OK(t, err)
	admitted := make([]bool, len(p.Requests))
	for i := range admitted {
		admitted[i] = true
	}
	simulate.Run(cfg, rules, log, simulate.Options{
		Envoys: 1, Workers: 1,
		Refused: func(number int, _, _ string) { admitted[number] = false },
	})
	return admitted
}

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
		page := b.set(fields)
		want := page.simulated(t)
		testenv.Same(t, fmt.Sprint(fields, ": that some are rejected"), strings.Contains(fmt.Sprint(want), "false"), true)
		for i, r := range page.Requests {
			if page.Admitted[i] != want[i] {
				t.Fatalf("%v: request %d, %+v: the page admits it: %v, the plugin: %v", fields, i, r, page.Admitted[i], want[i])
			}
		}
	}
	b.clean()
}
