package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// refusals are how applications answer a wrong one.
var refusals = map[string]func(w http.ResponseWriter){
	"401":            func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) },
	"the form again": func(http.ResponseWriter) {}, // 200, as Django
	"a redirect": func(w http.ResponseWriter) { // as Spring Security
		w.Header().Set("location", "/login?error")
		w.WriteHeader(http.StatusFound)
	},
}

// cookbookFailedLogins: of 200 parallel guesses at most 5 are with the application at once, and never more
// than 5 fail. Right passwords are free.
var cookbookFailedLogins = plain{
	name:     "cookbook failed logins",
	config:   "recipe Failed logins\n" + `"limit": 60 -> "limit": 100000`,
	stores:   bothStores,
	variants: []string{"401", "the form again", "a redirect"},
	play: func(t *testing.T, s *setting) {
		const limit, guesses = 5, 200
		rightOfTen := map[string]int{"the form again": 3}[s.variant]
		var app struct {
			gauge

			failed, right atomic.Int64
		}
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer app.enter()()
			body, _ := io.ReadAll(r.Body)
			time.Sleep(time.Duration(20+rand.IntN(30)) * time.Millisecond) // what checking a password takes
			if string(body) == "right" {
				app.right.Add(1)
				http.Redirect(w, r, "/", http.StatusFound)
				return
			}
			app.failed.Add(1)
			refusals[s.variant](w)
		}))
		logIn := func(password string) int {
			return get(t, s.URL+"/login", ":method: POST", ":body: "+password).status
		}
		for range 20 { // one after the other: none is refused
			if status := logIn("right"); status != http.StatusFound {
				t.Fatalf("a right password: status %d", status)
			}
			testenv.Wait(t, patience, func() error {
				if s.client != nil && len(s.keys(t, "logins")) > 0 { // the embedded store settles as the stream ends
					return errors.New("a right password is charged")
				}
				return nil
			})
		}
		var group sync.WaitGroup
		var refused atomic.Int64
		for i := range guesses {
			group.Go(func() {
				password := "wrong"
				if i%10 < rightOfTen {
					password = "right"
				}
				if logIn(password) == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		group.Wait()
		if most := app.most.Load(); most > limit {
			t.Errorf("%d were with the application at once, want %d at most", most, limit)
		}
		failed, right := app.failed.Load(), app.right.Load()-20
		if failed > limit || failed == 0 {
			t.Errorf("%d failed, want 1 to %d", failed, limit)
		}
		testenv.Same(t, "answers", failed+right+refused.Load(), int64(guesses))
		testenv.Wait(t, patience, func() error { // a rejection is remembered for 100 ms
			logIn("wrong")
			if failed := app.failed.Load(); failed < limit {
				return fmt.Errorf("%d failed, want %d", failed, limit)
			}
			return nil
		})
		for range limit { // the limit is used up
			logIn("wrong")
		}
		testenv.Same(t, "failed in the end", app.failed.Load(), int64(limit))
		testenv.Same(t, "status of one more", logIn("right"), http.StatusTooManyRequests)
	},
}

// cookbookLoginsBackstop: where failures look like successes, 60 an hour are tried all the same.
var cookbookLoginsBackstop = plain{
	name:   "cookbook logins backstop",
	config: "recipe Failed logins",
	stores: embedded,
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.RedirectHandler("/", http.StatusFound))
		for range 80 {
			get(t, s.URL+"/login", ":method: POST", ":body: wrong")
		}
		testenv.Same(t, "passwords tried", s.upstream.Count(), 60)
	},
}

// cookbookFailures: requests that fail, and no others. A worker tells Redis what
// the one before was worth before it asks about the next one.
var cookbookFailures = plain{
	name:   "cookbook failed requests only",
	config: "recipe Failed requests only",
	stores: bothStores,
	worker: true,
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(obedient))
		for i := range 59 { // 20 of them fail
			status := []int{200, 404, 302}[i%3]
			if got := get(t, s.URL, "x-account: a", fmt.Sprint("x-status: ", status)).status; got != status {
				t.Fatalf("request %d: status %d, want %d", i, got, status)
			}
		}
		testenv.Same(t, "after 20 failures: status", get(t, s.URL, "x-account: a").status, http.StatusTooManyRequests)
		testenv.Same(t, "another account: status", get(t, s.URL, "x-account: b").status, http.StatusOK)
	},
}

// cookbookBytesOut: the rule counts the bytes that were sent, to the KiB. There is one worker, which tells Redis
// what the requests were worth before it asks about the one that tells us.
var cookbookBytesOut = plain{
	name:   "cookbook bytes out",
	config: "recipe Bytes out",
	stores: bothStores,
	worker: true,
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(obedient))
		acquaint(t, s, "x-api-key: other")
		const requests = 40
		var group sync.WaitGroup
		for range requests {
			group.Go(func() {
				if r := get(t, s.URL, "x-api-key: k", "x-bytes: 99000"); r.status != http.StatusOK {
					t.Errorf("status %d", r.status)
				}
			})
		}
		group.Wait()
		// 97 KiB each, as headers count, too, and 64 of the one that asks.
		awaitActive(t, s, 0)
		r := get(t, s.URL, "x-api-key: k")
		expectHeaders(t, r, map[string]string{"x-ratelimit-remaining": fmt.Sprint(100_000 - 64 - 97*requests)})
	},
}

// acquaint lets Redis learn the scripts, so that nothing is told twice from then on.
func acquaint(t *testing.T, s *setting, header string) {
	t.Helper()
	for range 3 {
		get(t, s.URL, header)
		awaitActive(t, s, 0)
	}
}

// cookbookWork: the rule counts the work that the upstream reports, and no more than the limit is
// begun for a client that hangs up.
var cookbookWork = plain{
	name:   "cookbook work",
	config: "recipe A cost that the upstream reports",
	stores: bothStores,
	worker: true,
	play: func(t *testing.T, s *setting) {
		acquaint(t, s, "x-account: other")
		const most, limit = 500, 10_000
		var begun atomic.Int64
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch units := r.Header.Get("x-units"); units {
			case "":
			case "never told":
				begun.Add(1)
				<-r.Context().Done()
			default:
				w.Header().Set("x-work-units", units)
			}
		}))
		var group sync.WaitGroup
		for i := range limit / most {
			group.Go(func() {
				headers := []string{"x-account: a", fmt.Sprint("x-units: ", i%10)} // 90 in all
				if i%5 == 0 {
					headers = headers[:1] // released: 0 and 5 are 10 less
				}
				if r := get(t, s.URL, headers...); r.status != http.StatusOK {
					t.Errorf("status %d", r.status)
				}
			})
		}
		group.Wait()
		awaitActive(t, s, 0)
		r := get(t, s.URL, "x-account: a")
		expectHeaders(t, r, map[string]string{"x-ratelimit-remaining": fmt.Sprint(limit - most - (90 - 10))})

		for range 3 * limit / most {
			client, before := newClient(), begun.Load()
			leaving, leave := context.WithCancel(ctx)
			over := make(chan error, 1)
			go func() {
				_, err := send(leaving, client, s.URL, "x-account: b", "x-units: never told")
				over <- err
			}()
			testenv.Wait(t, patience, func() error { // until it is refused, or the upstream works on it
				if len(over) == 0 && begun.Load() == before {
					return errors.New("the request is under way")
				}
				return nil
			})
			leave()
			if err := <-over; err != nil && begun.Load() == before {
				t.Error(err)
			}
			client.CloseIdleConnections()
		}
		testenv.Same(t, "pieces of work for a client that hangs up", begun.Load(), limit/most)
	},
}
