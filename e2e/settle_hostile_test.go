package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var resetMember = regexp.MustCompile(`;t=\d+`)

// settleLeavers: clients leave a streaming response at every instant. Each charge is what the headers have
// said if they came, else the reservation, and no slot is left.
var settleLeavers = plain{
	name: "settle leavers",
	config: `{"headers": ["draft"], "deny_cache": {"size": 0}, "rules": [{"name": "r", "key": [{"query": "u"}],
		"cost": {"header": "x-cost", "default": 10}, "limits": [
			{"name": "tokens", "algorithm": "sliding_window_counter", "limit": 100, ` + long + `, "sub_windows": 6},
			{"name": "flight", "algorithm": "concurrency", "limit": 4, "cost": {"header": "x-cost", "default": 1, "max": 1}}],
		"settle": {"cost": {"header": "x-tokens", "max": 100}}}]}`,
	stores: bothStores,
	play: func(t *testing.T, s *setting) {
		const clients, step, event = 60, 5 * time.Millisecond, 20 * time.Millisecond
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * event)
			w.Header().Set("x-tokens", "3")
			for range 5 {
				_, _ = io.WriteString(w, "data: {}\n\n")
				w.(http.Flusher).Flush()
				time.Sleep(event)
			}
		}))
		path := func(client int) string { return fmt.Sprintf("/%s?u=%d", s.listener, client) } // others share the log
		heard := make([]bool, clients)                                                         // the client had the headers
		var group sync.WaitGroup
		for i := range clients {
			group.Go(func() {
				leaving, leave := context.WithTimeout(ctx, time.Duration(i)*step)
				defer leave()
				client := newClient()
				defer client.CloseIdleConnections()
				req, err := http.NewRequestWithContext(leaving, http.MethodGet, s.URL+path(i), nil)
				testenv.SameError(t, "a request", err, nil)
				if resp, err := client.Do(req); err == nil {
					heard[i] = true
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		group.Wait()
		awaitActive(t, s, 0)
		time.Sleep(100 * time.Millisecond) // until the access log is on disk
		came := map[string]bool{}
		for _, entry := range s.AccessLog() {
			came[entry.Path] = true
		}
		outcomes := map[string]int{}
		for i := range clients {
			testenv.Wait(t, patience, func() error {
				got := resetMember.ReplaceAllString(get(t, s.URL+path(i), "x-cost: 0").header.Get("ratelimit"), "")
				switch {
				case got == `"tokens";r=97, "flight";r=4`:
				case !heard[i] && got == `"tokens";r=90, "flight";r=4`:
				case !came[path(i)] && got == `"tokens";r=100, "flight";r=4`:
				default:
					return fmt.Errorf("client %d, headers heard %v: %s is left", i, heard[i], got)
				}
				outcomes[got]++
				return nil
			})
		}
		t.Log(outcomes)
		if len(outcomes) < 2 {
			t.Error("all clients left at the same instant")
		}
	},
}
