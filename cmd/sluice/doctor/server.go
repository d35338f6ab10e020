package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const (
	asAdministrator = "ask again as a user that may, --redis-user"
	seeRedis        = "docs/operations.md, \"Redis\""
)

// info is a section of INFO; nil where it is refused or unknown
// (https://redis.io/docs/latest/commands/info/).
func (s *Redis) info(ctx context.Context, section string) (fields map[string]string) {
	all, err := s.Client.InfoMap(ctx, section).Result()
	if err != nil {
		return nil
	}
	fields = map[string]string{}
	for _, found := range all {
		maps.Copy(fields, found)
	}
	return fields
}

// infoFor is a section of INFO that a check needs.
func (s *Redis) infoFor(ctx context.Context, section, check string, r *Report) map[string]string {
	fields := s.info(ctx, section)
	if fields == nil {
		r.Add(check, Warn, asAdministrator, "not known: INFO is refused")
	}
	return fields
}

// server says what answers. It is false where nothing can be tried.
func (s *Redis) server(ctx context.Context, r *Report) bool {
	server, replication := s.info(ctx, "server"), s.info(ctx, "replication")
	if server == nil {
		r.Add("redis", Warn, asAdministrator, "it answers; INFO is refused, so its version and role are not known")
		return true
	}
	product, version := "Redis", server["redis_version"]
	for field, name := range map[string]string{"valkey_version": "Valkey", "dragonfly_version": "Dragonfly"} {
		if server[field] != "" {
			product, version = name, server[field]
		}
	}
	_, asCluster := s.Client.(*redis.ClusterClient)
	inCluster := s.info(ctx, "cluster")
	switch replicas := replication["connected_slaves"]; {
	case inCluster["cluster_enabled"] == "1" && !asCluster:
		r.Add("redis", Fail, "add --redis-cluster; Envoy needs redis_proxy in between", "%s %s, a node of a Redis Cluster",
			product, version)
		return false
	case replication["role"] == "slave":
		r.Add("redis", Fail, "point --redis, and Envoy's cluster, at the primary", "%s %s, a replica: it refuses writes",
			product, version)
		return false
	case replicas == "" || replicas == "0":
		r.Add("redis", Pass, "", "%s %s, a primary without replicas: what is lost with it begins anew", product, version)
	default:
		r.Add("redis", Pass, "", "%s %s, a primary with %s replicas", product, version, replicas)
	}
	return true
}

// clock looks at Redis' time, which decides.
func (s *Redis) clock(ctx context.Context, r *Report) {
	before := time.Now()
	now, err := s.Client.Time(ctx).Result()
	if err != nil {
		r.Add("time", Fail, "give the user +time", "%s", s.Say(err))
		return
	}
	if away := now.Sub(before.Add(time.Since(before) / 2)).Abs(); away > 5*time.Second {
		r.Add("time", Warn, "run NTP on both: windows go by Redis' clock", "Redis' clock is %s from this machine's",
			away.Round(time.Second))
		return
	}
	r.Add("time", Pass, "", "Redis' clock agrees with this machine's")
}

// rights has the user do what the configuration's rules need, on keys of the doctor's own.
func (s *Redis) rights(ctx context.Context, r *Report) {
	set, err := rule.Compile(s.Config, nil)
	if err != nil {
		r.Add("rules", Fail, "sluice validate says more", "%v", err)
		return
	}
	tag, count := newTag(), 0
	for _, limits := range set.LimitSets {
		if len(limits.Limits) == 0 {
			continue
		}
		if err := s.tryLimits(ctx, limits, tag); err != nil {
			r.Add("rules", Fail, s.remedy(err), "the script of limit %q: %s", limits.Limits[0].Name, s.Say(err))
			return
		}
		count++
	}
	for i := range s.Config.Rules {
		if err := s.tryTerms(ctx, &s.Config.Rules[i], tag); err != nil {
			r.Add("rules", Fail, s.remedy(err), "what rule %q reads beside its limits: %s", s.Config.Rules[i].Name, s.Say(err))
			return
		}
	}
	r.Add("rules", Pass, "", "the user may run the scripts of all rules, %d, on keys that begin with %q", count, s.Prefix)
}

// tryLimits has the very script of a rule charge and give back, if it has no terms.
func (s *Redis) tryLimits(ctx context.Context, limits *rule.LimitSet, tag string) error {
	bare, err := algo.NewPlan(live.LimitsAt(limits, time.Now().UnixMicro()))
	if err != nil {
		return err
	}
	var keys []string
	for _, suffix := range limits.KeySuffixes {
		keys = append(keys, s.key(tag, suffix))
	}
	defer s.Client.Del(ctx, keys...)
	_, err = decide(ctx, s.Client, bare, bare.Script().Source, keys, live.Arguments(bare, 1, bare.Each(1)))
	return err
}

// tryTerms reads what a rule reads of an identity, and writes what it writes.
func (s *Redis) tryTerms(ctx context.Context, r *config.Rule, tag string) error {
	if r.Overrides {
		name := s.key(tag, algo.OverrideSuffix)
		if err := s.Client.Get(ctx, name).Err(); err != nil && err != redis.Nil {
			return err
		}
		if err := s.Client.PTTL(ctx, name).Err(); err != nil {
			return err
		}
	}
	if r.Penalty == nil {
		return nil
	}
	name := s.key(tag, ":penalty")
	defer s.Client.Del(ctx, name)
	return s.Client.Set(ctx, name, "x", time.Minute).Err()
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

// memory looks at what a full Redis drops.
func (s *Redis) memory(ctx context.Context, r *Report) {
	m := s.infoFor(ctx, "memory", "maxmemory-policy", r)
	if m == nil {
		return
	}
	policy := m["maxmemory_policy"]
	switch {
	case strings.HasPrefix(policy, "allkeys-") && s.Config.UsesOverrides():
		r.Add("maxmemory-policy", Warn, "set maxmemory-policy volatile-lru",
			"%s: a full Redis drops overrides too, which have no TTL", policy)
	case policy == "volatile-ttl", strings.HasSuffix(policy, "-random"), strings.HasPrefix(policy, "allkeys-"):
		r.Add("maxmemory-policy", Warn, "set maxmemory-policy volatile-lru",
			"%s: a full Redis drops counters that are in use", policy)
	default:
		r.Add("maxmemory-policy", Pass, "", "%s", policy)
	}
	used, _ := strconv.ParseFloat(m["used_memory"], 64)
	most, _ := strconv.ParseFloat(m["maxmemory"], 64)
	switch {
	case most == 0:
		r.Add("memory", Warn, "set maxmemory: "+seeRedis, "%.0f MB are used, and nothing bounds it", used/1e6)
	case used > 0.9*most:
		r.Add("memory", Warn, "raise maxmemory, or find who makes so many identities: sluice top", "%.0f of %.0f MB are used",
			used/1e6, most/1e6)
	default:
		r.Add("memory", Pass, "", "%.0f of %.0f MB are used", used/1e6, most/1e6)
	}
}

// long is a window that people expect to outlive a restart of Redis.
const long = 24 * 3600 * 1_000_000

// persistence looks at what a restart forgets.
func (s *Redis) persistence(ctx context.Context, r *Report) {
	quotas := ""
	for i := range s.Config.Rules {
		c := &s.Config.Rules[i]
		for _, l := range c.Limits {
			if l.WindowMicros >= long {
				quotas = l.Name
			}
		}
	}
	p := s.infoFor(ctx, "persistence", "persistence", r)
	if p == nil {
		return
	}
	saved := p["aof_enabled"] == "1"
	how := "appendonly is on"
	if !saved {
		config, err := s.Client.ConfigGet(ctx, "save").Result()
		how, saved = "appendonly is off, save is "+strconv.Quote(config["save"]), err == nil && config["save"] != ""
		if err != nil {
			how = "appendonly is off, and what save is may not be asked"
		}
	}
	switch {
	case saved || quotas == "":
		r.Add("persistence", Pass, "", "%s", how)
	default:
		r.Add("persistence", Warn, "set appendonly yes, if that must not be", "%s: a restart of Redis begins %q anew",
			how, quotas)
	}
}

// probes is how many checks are timed.
const probes = 300

// latency times a check by the connection of this command.
func (s *Redis) latency(ctx context.Context, r *Report) {
	plan, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.GCRA, Units: 1000, WindowMicros: 1e6}})
	if err != nil {
		r.Add("latency", Fail, "this is a mistake in sluice: report it", "%v", err)
		return
	}
	keys, args := []string{s.key(newTag(), ":gcra:1s")}, live.Arguments(plan, 1, plan.Each(1))
	defer s.Client.Del(ctx, keys...)
	var took []time.Duration
	for range probes {
		begin := time.Now()
		if _, err := decide(ctx, s.Client, plan, plan.Script().Source, keys, args); err != nil {
			r.Add("latency", Fail, s.remedy(err), "%s", s.Say(err))
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
		r.Add("latency", Warn, "raise redis.timeout, or bring Redis nearer: checks that take longer are not decided by it",
			"%s", found)
		return
	}
	r.Add("latency", Pass, "", "%s", found)
}
