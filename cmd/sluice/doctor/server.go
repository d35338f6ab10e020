package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const (
	asAdministrator = "ask again as a user that may, --redis-user"
	seeRedis        = "docs/operations.md, \"Redis\""
)

// server says what answers, by INFO (https://redis.io/docs/latest/commands/info/). It is false where nothing can
// be tried.
func (s *Redis) server(ctx context.Context) bool {
	all, err := s.Client.InfoMap(ctx).Result()
	if err != nil {
		s.Add("redis", Warn, asAdministrator, "it answers; INFO is refused, so its version and role are not known")
		return true
	}
	s.info = map[string]string{}
	for _, fields := range all {
		maps.Copy(s.info, fields)
	}
	product, version := "Redis", s.info["redis_version"]
	for field, name := range map[string]string{"valkey_version": "Valkey", "dragonfly_version": "Dragonfly"} {
		if s.info[field] != "" {
			product, version = name, s.info[field]
		}
	}
	_, asCluster := s.Client.(*redis.ClusterClient)
	switch replicas := s.info["connected_slaves"]; {
	case s.info["cluster_enabled"] == "1" && !asCluster:
		s.Add("redis", Fail, "add --redis-cluster; Envoy needs redis_proxy in between", "%s %s, a node of a Redis Cluster",
			product, version)
		return false
	case s.info["role"] == "slave":
		s.Add("redis", Fail, "point --redis, and Envoy's cluster, at the primary", "%s %s, a replica: it refuses writes",
			product, version)
		return false
	case replicas == "" || replicas == "0":
		s.Add("redis", Pass, "", "%s %s, a primary without replicas: what is lost with it begins anew", product, version)
	default:
		s.Add("redis", Pass, "", "%s %s, a primary with %s replicas", product, version, replicas)
	}
	return true
}

// clock looks at Redis' time, which decides.
func (s *Redis) clock(context.Context) {
	if away := s.Ahead.Abs(); away > 5*time.Second {
		s.Add("time", Warn, "run NTP on both: windows go by Redis' clock", "Redis' clock is %s from this machine's",
			away.Round(time.Second))
	} else {
		s.Add("time", Pass, "", "Redis' clock agrees with this machine's")
	}
}

// rights has the user do what the configuration's rules need, on keys of the doctor's own: run the scripts of
// rules without terms, and read and write what terms keep.
func (s *Redis) rights(ctx context.Context) {
	set, err := rule.Compile(s.Config, nil)
	console.Must(err) // as it was read
	tag, count := newTag(), 0
	for _, limits := range set.LimitSets {
		if len(limits.Limits) == 0 {
			continue
		}
		bare, err := algo.NewPlan(live.LimitsAt(limits, time.Now().Add(s.Ahead).UnixMicro()))
		console.Must(err)
		var keys []string
		for _, suffix := range limits.KeySuffixes {
			keys = append(keys, s.key(tag, suffix))
		}
		_, err = decide(ctx, s.Client, bare, bare.Script().Source, keys, live.Arguments(bare, 1, bare.Each(1)))
		s.Client.Del(ctx, keys...)
		if err != nil {
			s.Add("rules", Fail, s.remedy(err), "the script of limit %q: %s", limits.Limits[0].Name, s.Explain(err))
			return
		}
		count++
	}
	for i := range s.Config.Rules {
		r, err := &s.Config.Rules[i], error(nil)
		if r.Overrides {
			name := s.key(tag, algo.OverrideSuffix)
			if err = s.Client.Get(ctx, name).Err(); err == nil || errors.Is(err, redis.Nil) {
				err = s.Client.PTTL(ctx, name).Err()
			}
		}
		if r.Penalty != nil && err == nil {
			name := s.key(tag, algo.PenaltySuffix)
			err = s.Client.Set(ctx, name, "x", time.Minute).Err()
			s.Client.Del(ctx, name)
		}
		if err != nil {
			s.Add("rules", Fail, s.remedy(err), "what rule %q reads beside its limits: %s", r.Name, s.Explain(err))
			return
		}
	}
	s.Add("rules", Pass, "", "the user may run the scripts of all rules, %d, on keys that begin with %q", count, s.Prefix)
}

// remedy says what to do about an error of Redis.
func (s *Redis) remedy(err error) string {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "NOPERM"), strings.Contains(text, "No permissions"), strings.Contains(text,
		"can't run this command"), strings.Contains(text, "can't access"):
		return fmt.Sprintf("give the user the rights that docs/operations.md lists, on keys that begin with %q", s.Prefix)
	case strings.HasPrefix(text, "OOM"):
		return "Redis is full: raise maxmemory, or set maxmemory-policy volatile-lru"
	case strings.HasPrefix(text, "READONLY"):
		return "this is a replica: point the cluster's endpoint at the primary"
	case strings.Contains(text, "unknown command"):
		return "the server, or a proxy before it, does not offer this command: " + seeRedis
	}
	return seeRedis
}

// long is a window that people expect to outlive a restart of Redis.
const long = 24 * 3600 * 1_000_000

// keeps looks at what a full Redis drops, and at what a restart forgets.
func (s *Redis) keeps(ctx context.Context) {
	if s.info == nil {
		s.Add("maxmemory-policy", Warn, asAdministrator, "not known: INFO is refused")
		s.Add("persistence", Warn, asAdministrator, "not known: INFO is refused")
		return
	}
	policy := s.info["maxmemory_policy"]
	switch allKeys := strings.HasPrefix(policy, "allkeys-"); {
	case allKeys && s.Config.UsesOverrides():
		s.Add("maxmemory-policy", Warn, "set maxmemory-policy volatile-lru",
			"%s: a full Redis drops overrides too, which have no TTL", policy)
	case allKeys, policy == "volatile-ttl", strings.HasSuffix(policy, "-random"):
		s.Add("maxmemory-policy", Warn, "set maxmemory-policy volatile-lru",
			"%s: a full Redis drops counters that are in use", policy)
	default:
		s.Add("maxmemory-policy", Pass, "", "%s", policy)
	}
	used, _ := strconv.ParseFloat(s.info["used_memory"], 64)
	most, _ := strconv.ParseFloat(s.info["maxmemory"], 64)
	switch {
	case most == 0:
		s.Add("memory", Warn, "set maxmemory: "+seeRedis, "%.0f MB are used, and nothing bounds it", used/1e6)
	case used > 0.9*most:
		s.Add("memory", Warn, "raise maxmemory, or find who makes so many identities: sluice top", "%.0f of %.0f MB are used",
			used/1e6, most/1e6)
	default:
		s.Add("memory", Pass, "", "%.0f of %.0f MB are used", used/1e6, most/1e6)
	}
	quotas, how, saved := "", "appendonly is on", true
	for i := range s.Config.Rules {
		for _, l := range s.Config.Rules[i].Limits {
			if l.WindowMicros >= long {
				quotas = l.Name
			}
		}
	}
	if s.info["aof_enabled"] != "1" {
		config, err := s.Client.ConfigGet(ctx, "save").Result()
		how, saved = "appendonly is off, save is "+strconv.Quote(config["save"]), err == nil && config["save"] != ""
		if err != nil {
			how = "appendonly is off, and what save is may not be asked"
		}
	}
	if saved || quotas == "" {
		s.Add("persistence", Pass, "", "%s", how)
	} else {
		s.Add("persistence", Warn, "set appendonly yes, if that must not be", "%s: a restart of Redis begins %q anew",
			how, quotas)
	}
}

// probes is how many checks are timed.
const probes = 300

// latency times a check by the connection of this command.
func (s *Redis) latency(ctx context.Context) {
	plan, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.GCRA, Units: 1000, WindowMicros: 1e6}})
	console.Must(err)
	keys, args := []string{s.key(newTag(), ":gcra:1s")}, live.Arguments(plan, 1, plan.Each(1))
	defer s.Client.Del(ctx, keys...)
	var took []time.Duration
	for range probes {
		begin := time.Now()
		if _, err := decide(ctx, s.Client, plan, plan.Script().Source, keys, args); err != nil {
			s.Add("latency", Fail, s.remedy(err), "%s", s.Explain(err))
			return
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	timeout := 50 * time.Millisecond
	if s.Config.Redis != nil {
		timeout = time.Duration(s.Config.Redis.TimeoutMicros) * time.Microsecond
	}
	p50, p99 := took[probes/2].Round(time.Microsecond), took[probes*99/100].Round(time.Microsecond)
	found := fmt.Sprintf("a check takes %s, 99 of 100 at most %s, from here; redis.timeout is %s", p50, p99, timeout)
	if p99 > timeout/2 {
		s.Add("latency", Warn, "raise redis.timeout, or bring Redis nearer: checks that take longer are not decided by it",
			"%s", found)
	} else {
		s.Add("latency", Pass, "", "%s", found)
	}
}
