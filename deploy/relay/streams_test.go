package relay_test

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Where a relay bounds its streams and connections.
const (
	relayManager = "static_resources/listeners/relay/filter_chains/0/filters/0/typed_config"
	httpOptions  = relayManager + "/common_http_protocol_options"
)

// TestRelayEndsStreams: operators may bound how long a relay's streams and connections live. A
// connection's end leaves its streams to finish, and they rotate to another one; a stream's own end
// fails what is in flight.
func TestRelayEndsStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, bounds, plugin, ends string // ends is the relay's count of them
		each                       int64  // requests that may be undecided at each end
	}{
		{
			"connections of a second", `{max_connection_duration: 1s}`, rotating("10s"),
			"http.relay.downstream_cx_max_duration_reached", 0,
		},
		{
			"streams of a second", `{max_stream_duration: 1s}`, fmt.Sprintf(plugin, "10s"),
			"http.relay.downstream_rq_max_duration_reached", clients,
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			relay := envoytest.NewRelay(t, redistest.Start(t).Addr, func(conf *envoyconf.Config) {
				conf.Set(httpOptions, conf.Fragment(c.bounds))
			})
			l := startLoad(t, startPlugin(t, c.plugin, relay.Addr), clients)
			testenv.Wait(t, patience, func() error {
				if n := relay.Stats(c.ends)[c.ends]; n < 3 {
					return fmt.Errorf("%d have ended", n)
				}
				return nil
			})
			l.stop()
			ends := int64(relay.Stats(c.ends)[c.ends])
			testenv.Within(t, "requests that were not decided", l.failed.Load(), 0, ends*c.each)
			t.Logf("%d ends, %d requests were not decided, %d were", ends, l.failed.Load(), l.decided.Load())
		})
	}
}

// TestIdleStreams: a relay may end a stream that no request uses; the next request opens another one.
func TestIdleStreams(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, func(c *envoyconf.Config) {
		c.Set(relayManager+"/stream_idle_timeout", "1s")
	})
	e := startLimiter(t, "10s", relay.Addr)
	for range 3 {
		testenv.Wait(t, patience, func() error {
			if n := relay.Stats(activeStreams)[activeStreams]; n != 0 {
				return fmt.Errorf("%d streams are open", n)
			}
			return nil
		})
		testenv.SameError(t, "the next request", decided(e), nil)
	}
}
