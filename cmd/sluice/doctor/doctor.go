// Package doctor tries whether a Redis and an Envoy fit a configuration of the plugin.
package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// Status is the result of a check.
type Status string

// The statuses. Fail says that limits cannot work so.
const (
	Pass Status = "pass"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Advice string `json:"advice"` // what to do; "" if there is nothing
}

// Report collects checks.
type Report struct {
	Checks []Check `json:"checks"`
}

// Add adds a check.
func (r *Report) Add(name string, status Status, advice, found string, args ...any) {
	r.Checks = append(r.Checks, Check{name, status, fmt.Sprintf(found, args...), advice})
}

// Warn adds warnings about the configuration.
func (r *Report) Warn(warnings []config.Mistake) {
	for _, w := range warnings {
		problem, advice := split(w.Problem)
		r.Add("configuration", Warn, advice, "%s: %s", w.Path, problem)
	}
}

// Failed reports whether any check failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status == Fail })
}

// Redis is the server that is looked at.
type Redis struct {
	Client redis.UniversalClient
	Config *config.Config
	Prefix string             // of all keys
	Say    func(error) string // what an error means, without secrets
}

// Look tries all that the configuration needs of Redis. It writes keys of its own and removes them.
func (s *Redis) Look(ctx context.Context, r *Report) {
	if !s.server(ctx, r) {
		return
	}
	for _, try := range []func(context.Context, *Report){
		s.clock, s.rights, s.replay, s.memory, s.persistence, s.latency,
	} {
		if try(ctx, r); ctx.Err() != nil {
			r.Add("redis", Fail, "bring Redis nearer, or look what keeps it busy", "it is too slow: the rest was not tried")
			return
		}
	}
}

// key is a key of the doctor's own, with a hash tag.
func (s *Redis) key(tag, suffix string) string { return s.Prefix + ":{" + tag + "}" + suffix }

// newTag is a hash tag that no rule has: "|" would follow a rule's name.
func newTag() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return "sluice-doctor-" + hex.EncodeToString(random)
}

// node is one primary, and a hash tag whose keys it holds.
type node struct{ address, tag string }

// nodes are Redis itself, or each primary of a Redis Cluster.
func (s *Redis) nodes(ctx context.Context) (all []node, err error) {
	cluster, ok := s.Client.(*redis.ClusterClient)
	if !ok {
		return []node{{"", newTag()}}, nil
	}
	primaries := make(chan string, 1000)
	err = cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		primaries <- c.Options().Addr
		return nil
	})
	close(primaries)
	wanted := map[string]bool{}
	for address := range primaries {
		wanted[address] = true
	}
	for tries := 100 * len(wanted); err == nil && len(wanted) > 0 && tries > 0; tries-- {
		tag := newTag()
		var primary *redis.Client
		if primary, err = cluster.MasterForKey(ctx, s.key(tag, "")); err == nil && wanted[primary.Options().Addr] {
			delete(wanted, primary.Options().Addr)
			all = append(all, node{primary.Options().Addr, tag})
		}
	}
	return all, err
}
