package main

import "fmt"

// explain says what to try.
func (d *demo) explain() {
	url := "http://" + d.ports.listener.addr()
	fmt.Fprintf(d.out, `
Sluice is running. In another terminal:

  An address may send 20 requests at once, then 10 a second:
    curl -i %[1]s/
  A key may send 5 requests at once, then 1 a second, and 100 an hour. The sixth gets a 429:
    for i in 1 2 3 4 5 6; do curl -i -H 'x-api-key: alice' %[1]s/api/orders; done
  No limit:
    curl -i %[1]s/healthz
`, url)
	if d.local {
		fmt.Fprintln(d.out, "  The counters are in memory that Envoy's workers share; Redis is not used.")
	} else {
		fmt.Fprintf(d.out, "  The counters:\n    redis-cli -p %d --scan\n", d.ports.redis.number)
	}
	fmt.Fprintf(d.out, `  What the plugin counts:
    curl -s '%s'

Each request is shown here: method, path, status, decision, duration. Ctrl-C stops everything.

`, "http://"+d.ports.admin.addr()+"/stats?filter=sluice")
}
