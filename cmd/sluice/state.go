package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

// stateFlags are what the commands that ask Redis have in common.
type stateFlags struct {
	source
	state.Options
	passwordEnv    string
	tier, identity string
}

func (s *stateFlags) flags(command *cobra.Command) {
	s.source.flag(command)
	f := command.Flags()
	f.StringSliceVar(&s.Addresses, "redis", nil, "address of Redis, host:port; for a Redis Cluster some nodes")
	f.BoolVar(&s.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.BoolVar(&s.TLS, "redis-tls", false, "Redis speaks TLS")
	f.StringVar(&s.CA, "redis-ca", "", "file with the authority of Redis' certificate (default: the system's)")
	f.StringVar(&s.ServerName, "redis-server-name", "", "name in Redis' certificate (default: the host of --redis)")
	f.StringVar(&s.User, "redis-user", "", "user of Redis (default: the configuration's)")
	f.StringVar(&s.passwordEnv, "redis-password-env", "", "environment variable with Redis' password (default: the configuration's)")
	f.DurationVar(&s.Timeout, "timeout", 5*time.Second, "how long to wait for Redis")
	f.StringVar(&s.tier, "tier", "", "the tier of limits_by (default: the one that the values choose, or all)")
	must(command.MarkFlagRequired("redis"))
}

// open reads the configuration and connects.
func (a *app) open(ctx context.Context, s *stateFlags) (*limiter, *state.Client, error) {
	l, err := a.limiter(s.source)
	if err != nil {
		return nil, nil, err
	}
	if r := l.cfg.Redis; r != nil {
		s.Password, s.Database = r.Password, int(r.Database)
		if s.User == "" {
			s.User = r.Username
		}
		if s.passwordEnv == "" && s.Password == "" {
			s.passwordEnv = r.PasswordEnv
		}
	}
	if s.passwordEnv != "" {
		password, ok := os.LookupEnv(s.passwordEnv)
		if !ok {
			return nil, nil, usage("the environment variable %s, which has Redis' password, is not set", s.passwordEnv)
		}
		s.Password = strings.TrimRight(password, "\r\n")
	}
	if s.Password == "" {
		s.User = ""
	}
	client, err := state.Connect(ctx, s.Options)
	if err != nil {
		return nil, nil, &failure{exitRedis, err}
	}
	return l, client, nil
}

// target finds the identity that the arguments name.
func (s *stateFlags) target(l *limiter, args []string) (*state.Identity, error) {
	var id *state.Identity
	var err error
	if s.identity != "" {
		if len(args) > 1 {
			return nil, usage("--identity stands in place of the values")
		}
		id, err = state.Tagged(l.cfg, args[0], s.tier, s.identity)
	} else {
		id, err = state.Of(l.cfg, args[0], s.tier, args[1:])
	}
	if err != nil {
		return nil, usage("%w", err)
	}
	return id, nil
}

// identityCommand makes a command for one identity.
func (a *app) identityCommand(use, short, long string, s *stateFlags, run func(context.Context, *limiter, *state.Client, *state.Identity) error) *cobra.Command {
	command := &cobra.Command{
		Use:   use + " RULE [VALUE...]",
		Short: short,
		Long:  long + "\n\nThe values are those of the rule's key, in its order; leave out constants.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l, client, err := a.open(c.Context(), s)
			if err != nil {
				return err
			}
			defer client.Close()
			id, err := s.target(l, args)
			if err != nil {
				return err
			}
			return run(c.Context(), l, client, id)
		},
	}
	s.flags(command)
	command.Flags().StringVar(&s.identity, "identity", "", "the identity as keys, logs and top show it, instead of the values")
	return command
}

// identityState is what get prints.
type identityState struct {
	Rule     string          `json:"rule"`
	Tag      string          `json:"tag"`
	Override *state.Override `json:"override,omitempty"`
	Penalty  *state.Penalty  `json:"penalty,omitempty"`
	Limits   []state.Status  `json:"limits"`
	Summary  string          `json:"summary"`
}

func (a *app) getCommand() *cobra.Command {
	s := &stateFlags{}
	return a.identityCommand("get", "Show what an identity has used of its limits, and when it may go again",
		"Get asks Redis for the state of an identity, by the scripts that the plugin runs. It\ncharges nothing.",
		s, func(ctx context.Context, l *limiter, client *state.Client, id *state.Identity) error {
			prefix := state.Prefix(l.cfg)
			override, err := client.ReadOverride(ctx, prefix, id)
			if err != nil {
				return &failure{exitRedis, err}
			}
			id.Factor = factorOf(id, override)
			limits, err := client.Read(ctx, prefix, id)
			if err != nil {
				return &failure{exitRedis, err}
			}
			penalty, err := client.ReadPenalty(ctx, prefix, id)
			if err != nil {
				return &failure{exitRedis, err}
			}
			shown := identityState{
				Rule: id.Rule.Name, Tag: string(id.Tag), Override: override, Penalty: penalty, Limits: limits,
				Summary: summary(override, penalty, limits),
			}
			return a.printState(&shown)
		})
}

// summary says in words when the identity may go again.
func summary(override *state.Override, penalty *state.Penalty, limits []state.Status) string {
	switch {
	case override != nil && override.Value == "block":
		return "It is blocked" + lasting(override) + "."
	case override != nil && override.Value == "free":
		return "It is free of limits" + lasting(override) + "."
	case penalty != nil && penalty.ForMicros > 0:
		return "Its penalty blocks it for another " + wait(penalty.ForMicros) + "."
	case len(limits) == 0:
		return "It has no limits."
	}
	tiers := map[string]bool{}
	for _, l := range limits {
		tiers[l.Tier] = true
	}
	if len(tiers) > 1 {
		return "Which limits apply depends on its tier: --tier."
	}
	longest := slices.MaxFunc(limits, func(a, b state.Status) int { return int(min(max(a.RetryMicros-b.RetryMicros, -1), 1)) })
	for _, l := range limits {
		if l.RetryMicros < 0 {
			return fmt.Sprintf("It may never go: %q admits nothing.", l.Name)
		}
	}
	if longest.RetryMicros == 0 {
		return "It may go now."
	}
	return fmt.Sprintf("It may go again in %s, when %q has room.", wait(longest.RetryMicros), longest.Name)
}

func lasting(o *state.Override) string {
	if o.ForMicros < 0 {
		return ", without end"
	}
	return " for another " + wait(o.ForMicros)
}

// wait writes a time to wait, rounded up.
func wait(micros int64) string {
	d := time.Duration(micros) * time.Microsecond
	if d < time.Second {
		return fmt.Sprintf("%d ms", int64(math.Ceil(float64(d)/float64(time.Millisecond))))
	}
	text := (d + time.Second - 1).Truncate(time.Second).String()
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(text, "$1")
}

func (a *app) printState(s *identityState) error {
	if a.json() {
		if s.Limits == nil {
			s.Limits = []state.Status{}
		}
		return a.writeJSON(s)
	}
	fmt.Fprintf(a.out, "%s\n", s.Tag)
	if len(s.Limits) > 0 {
		if err := a.table(statusRows(s.Limits)); err != nil {
			return err
		}
	}
	if s.Override != nil && s.Override.Value != "block" && s.Override.Value != "free" {
		ignored := ""
		if checkOverride(s.Override.Value) != nil {
			ignored = ", which is not valid and is ignored"
		}
		fmt.Fprintf(a.out, "Override: %q%s%s.\n", s.Override.Value, lasting(s.Override), ignored)
	}
	if s.Penalty != nil && s.Penalty.Strikes > 0 {
		fmt.Fprintf(a.out, "Penalty: %d of the %d rejections that earn a block.\n", s.Penalty.Strikes, s.Penalty.After)
	}
	fmt.Fprintln(a.out, s.Summary)
	return nil
}

func statusRows(limits []state.Status) [][]string {
	head := []string{"LIMIT", "USED", "REMAINING", "RESET IN", "WHAT"}
	tiers := limits[0].Tier != ""
	if tiers {
		head = append([]string{"TIER"}, head...)
	}
	rows := [][]string{head}
	for _, l := range limits {
		what := limitOf(l.Algorithm, l.Limit, l.Capacity, l.Window)
		row := []string{l.Name, strconv.FormatInt(l.Used, 10), strconv.FormatInt(l.Remaining, 10), wait(l.ResetMicros), what}
		if tiers {
			row = append([]string{l.Tier}, row...)
		}
		rows = append(rows, row)
	}
	return rows
}

func (a *app) topCommand() *cobra.Command {
	s := &stateFlags{}
	s.KeysInAScanStep, s.IdentitiesAtOnce = 100, 100
	count := 10
	command := &cobra.Command{
		Use:   "top RULE",
		Short: "List the identities that have used most of a rule's limits",
		Long: `Top walks over Redis' keys in small steps with pauses between them, which do not
hold up other clients, and shows the identities that have used the largest share
of a limit. Of a rule with tiers the state is weighed by each tier, or by --tier.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if count < 1 || s.KeysInAScanStep < 1 {
				return usage("--count and --step: want at least 1")
			}
			l, client, err := a.open(c.Context(), s)
			if err != nil {
				return err
			}
			defer client.Close()
			if _, err := state.Tagged(l.cfg, args[0], s.tier, ""); err != nil {
				return usage("%w", err)
			}
			top, err := client.Top(c.Context(), l.cfg, args[0], s.tier, count)
			if err != nil {
				return &failure{exitRedis, err}
			}
			return a.printTop(top)
		},
	}
	s.flags(command)
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	command.Flags().Int64Var(&s.KeysInAScanStep, "step", s.KeysInAScanStep, "keys in a step of the walk")
	command.Flags().DurationVar(&s.PauseOfScan, "pause", time.Millisecond, "time between two steps")
	return command
}

func (a *app) printTop(top []state.Top) error {
	if a.json() {
		return a.writeJSON(map[string]any{"identities": append([]state.Top{}, top...)})
	}
	if len(top) == 0 {
		fmt.Fprintln(a.out, "no identity has used anything")
		return nil
	}
	rows := [][]string{{"IDENTITY", "USED", "OF", "RESET IN", "LIMIT"}}
	for _, t := range top {
		rows = append(rows, []string{
			shown(t.Identity), strconv.FormatInt(t.Used, 10), strconv.FormatInt(t.Capacity, 10), wait(t.ResetMicros), t.Name,
		})
	}
	return a.table(rows)
}
