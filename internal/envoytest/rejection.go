package envoytest

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// AwaitRejection sends requests until one is rejected, by a limit of the given capacity. Many are sent at once:
// one after the other might be no faster than the limit is restored.
func (e *Envoy) AwaitRejection(path, capacity string) {
	e.t.Helper()
	testenv.Wait(e.t, startLimit, func() error {
		var requests sync.WaitGroup
		rejected := make(chan string, 32)
		for range cap(rejected) {
			requests.Go(func() {
				resp, err := http.Get(e.URL + path)
				if err != nil {
					e.t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusTooManyRequests {
					rejected <- resp.Header.Get("X-RateLimit-Limit")
				}
			})
		}
		requests.Wait()
		close(rejected)
		for limit := range rejected {
			testenv.Same(e.t, path+": the limit that rejects", limit, capacity)
			return nil
		}
		return fmt.Errorf("%s: no request is rejected, want status 429 by the limit of %s", path, capacity)
	})
}
