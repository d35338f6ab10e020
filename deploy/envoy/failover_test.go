package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestFailover: only the primary is asked, and who becomes it is found.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
	g, watched := startWatched(t, "failover.yaml", nil, func(c *envoyconf.Config) {
		setEndpoint(c, "redis", 0, replica.Port)
		setEndpoint(c, "redis", 1, primary.Port)
	})
	testenv.Wait(t, patience, func() error {
		g.get("/")
		return asked(t, primary)
	})
	g.limits("/", "20")
	watched.data(nil).ExpectLabels("per-key", "an-hour")
	if asked(t, replica) == nil {
		t.Error("the replica was asked")
	}

	primary.Kill()
	testenv.OK(t, replica.Client().ReplicaOf(ctx, "NO", "ONE").Err())
	testenv.Wait(t, patience, func() error {
		g.get("/")
		return asked(t, replica)
	})
	g.limits("/", "20")
	counted(t, replica.Client())
}

// asked reports whether a client has called scripts of a server.
func asked(t *testing.T, server *redistest.Server) error {
	t.Helper()
	stats, err := server.Client().Info(ctx, "commandstats").Result()
	testenv.OK(t, err)
	if !strings.Contains(stats, "cmdstat_evalsha:") {
		return fmt.Errorf("%s was not asked", server.Addr)
	}
	return nil
}
