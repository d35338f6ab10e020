package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSettleLeavers: clients leave a streaming response at every instant. Each charge is
// what the headers have said if they came, else the reservation, and no slot is left.
func TestSettleLeavers(t *testing.T) {
	t.Parallel()
	const clients, step, event = 60, 5 * time.Millisecond, 20 * time.Millisecond
	plugin := `{"redis": {"cluster": "redis"}, "headers": ["draft"], "deny_cache": {"size": 0},
		"rules": [{"name": "r", "key": [{"query": "u"}],
		"cost": {"header": "x-cost", "default": 10}, "limits": [
			{"name": "tokens", "algorithm": "sliding_window_counter", "limit": 100, ` + long + `, "sub_windows": 6},
			{"name": "flight", "algorithm": "concurrency", "limit": 4, "cost": {"header": "x-cost", "default": 1, "max": 1}}],
		"settle": {"cost": {"header": "x-tokens", "max": 100}}}]}`
	inStores(t, plugin, envoytest.Options{}, func(t *testing.T, s *setting) {
		s.upstream.Handle(streaming(event))
		earlier := len(s.AccessLog())
		heard := make([]bool, clients) // the client had the headers
		var group sync.WaitGroup
		for i := range clients {
			group.Go(func() {
				heard[i] = leaveAfter(t, fmt.Sprintf("%s/?u=%d", s.URL, i), time.Duration(i)*step)
			})
		}
		group.Wait()
		awaitOver(t, s)
		time.Sleep(100 * time.Millisecond) // until the access log is on disk
		came := map[string]bool{}
		for _, entry := range s.AccessLog()[earlier:] {
			came[entry.Path] = true
		}
		outcomes := map[string]int{}
		for i := range clients {
			path := fmt.Sprint("/?u=", i)
			testenv.Wait(t, patience, func() error {
				got := rest(t, s.URL+path)
				switch {
				case got == `"tokens";r=97, "flight";r=4`:
				case !heard[i] && got == `"tokens";r=90, "flight";r=4`:
				case !came[path] && got == `"tokens";r=100, "flight";r=4`:
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
	})
}

// streaming answers with what the request is worth, and then with an event at a time.
func streaming(event time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * event)
		w.Header().Set("x-tokens", "3")
		for range 5 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(event)
		}
	})
}

// leaveAfter sends a request and leaves after a time. It reports whether the client had the headers
// by then.
func leaveAfter(t *testing.T, url string, after time.Duration) (heard bool) {
	t.Helper()
	leaving, leave := context.WithTimeout(ctx, after)
	defer leave()
	client := newClient()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(leaving, http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return true
}
