package promtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// ExpectLog waits until an access log, in what Envoy has printed, says that a request was
// rejected by the limit of Everything, and whom.
func ExpectLog(t testing.TB, printed func() string) {
	t.Helper()
	testenv.Wait(t, Limit, func() error {
		for line := range strings.Lines(printed()) {
			var entry struct{ Sluice, Rejected string }
			if json.Unmarshal([]byte(line), &entry) != nil || entry.Sluice != "limited:per-key" {
				continue
			}
			if strings.HasPrefix(entry.Rejected, `{"limit":"an-hour","identity":"",`) {
				return nil
			}
			return fmt.Errorf("the access log has %s", line)
		}
		return errors.New("no rejection is in the access log")
	})
}
