package envoytest

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// AwaitRejection sends requests until one is rejected, by a limit of the given capacity.
func (e *Envoy) AwaitRejection(path, capacity string) {
	e.t.Helper()
	limit := AwaitRejection(e.t, e.URL+path).Get("X-RateLimit-Limit")
	testenv.Same(e.t, path+": the limit that rejects", limit, capacity)
}

// AwaitRejection sends requests until one is rejected, and returns the header of its answer. Many are sent at once:
// one after the other might be no faster than the limit is restored.
func AwaitRejection(t testing.TB, url string) (rejection http.Header) {
	t.Helper()
	testenv.Wait(t, startLimit, func() error {
		var requests sync.WaitGroup
		rejected := make(chan http.Header, 32)
		for range cap(rejected) {
			requests.Go(func() {
				resp, err := http.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusTooManyRequests {
					rejected <- resp.Header
				}
			})
		}
		requests.Wait()
		close(rejected)
		if rejection = <-rejected; rejection == nil {
			return errors.New("no request is rejected, want status 429 from " + url)
		}
		return nil
	})
	return rejection
}
