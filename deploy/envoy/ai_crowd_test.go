package envoy_test

import (
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// crowdLimit is how many tokens a crowd shares.
const crowdLimit = 10_000

// aiCrowd: 40 clients at once never get more than the limit, as each stays within
// its reservation, and Redis has what they used, to the token.
var aiCrowd = aiTest{
	name: "crowd", changes: []string{`"limit": 100000`, `"limit": 10000`, `"default": 100000`, `"default": 10000`},
	play: func(t *testing.T, g *aiGateway) {
		const clients = 40
		r := g.sdk(t, "crowd", "key", clients)
		t.Logf("%d of %d admitted, %d tokens", r.Admitted, clients, r.Tokens)
		testenv.Within(t, "admitted", r.Admitted, crowdLimit/1200, clients-1)
		testenv.Within(t, "tokens", r.Tokens, 0, crowdLimit)
		testenv.Same(t, "tokens of the provider", int(g.provider.total.Load()), r.Tokens)
		g.awaitSum(t, r.Tokens)
	},
}

// aiCrowdOverTime: 24 streams at once, then one every 200 ms. At no time does Redis hold more than the limit, as each
// request reserves what it may use. The same requests, each of which reserves one token only and is counted when it
// has ended, use far more. In the end Redis has what was used, and in debt twice the limit at most.
var aiCrowdOverTime = aiTest{
	name: "crowd over time", variants: []string{"settled", "counted after"},
	changes: []string{
		`"limit": 100000`, `"limit": 10000`, `"default": 100000`, `"default": 10000`,
		`"limit": 60`, `"limit": 1000000`, `"limit": 20`, `"limit": 1000`, // the limit on tokens alone counts
	},
	edit: func(_ *testing.T, c *envoyconf.Config, variant string) {
		if variant == "counted after" {
			reservation := regexp.MustCompile(`(?s)"cost": \{\s*"expr".*?\},\s*"limits"`)
			c.SetPlugin(reservation.ReplaceAllString(c.Get(pluginText).(string), `"cost": 1, "limits"`))
		}
	},
	play: func(t *testing.T, g *aiGateway) {
		const atOnce, later = 24, 60
		begin := time.Now()
		var group sync.WaitGroup
		for i := range atOnce + later {
			worth := i*397%900 + 50
			pause := 250*time.Millisecond + time.Duration(worth)*700*time.Microsecond
			at := time.Duration(min(i, atOnce))*40*time.Millisecond + time.Duration(max(0, i-atOnce))*200*time.Millisecond
			group.Go(func() {
				time.Sleep(time.Until(begin.Add(at)))
				status, text := g.ask(t, "key", "/v1/chat/completions", fmt.Sprintf(
					`{"model": "gpt-test", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 1000,
						"messages": [{"role": "user", "content": "worth=%03d pause=%04dms"}]}`, worth, pause.Milliseconds(),
				))
				if status != http.StatusOK && status != http.StatusTooManyRequests {
					t.Errorf("status %d, %q", status, text)
				}
			})
		}
		over := make(chan struct{})
		go func() { group.Wait(); close(over) }()
		most := 0
		for looking := true; looking; {
			select {
			case <-over:
				looking = false
			case <-time.After(5 * time.Millisecond):
			}
			held, _ := g.charged(t)
			most = max(most, held)
		}
		used, admitted := int(g.provider.total.Load()), g.upstream.Count()
		t.Logf("%d admitted, %d tokens, at most %d in Redis", admitted, used, most)
		if g.variant == "settled" {
			testenv.Within(t, "the most that Redis held", most, 0, crowdLimit)
			testenv.Within(t, "tokens", used, crowdLimit/2, crowdLimit)
			testenv.Within(t, "admitted", admitted, 0, atOnce+later-1)
		} else {
			testenv.Within(t, "tokens", used, 3*crowdLimit/2, 10*crowdLimit)
		}
		g.awaitSum(t, min(used, 2*crowdLimit))
	},
}
