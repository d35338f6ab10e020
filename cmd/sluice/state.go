package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

// stateFlags are what the commands that ask Redis have in common.
type stateFlags struct {
	source
	state.Options
	passwordEnv    string
	walks          bool // over all keys
	tier, identity string
}

func (s *stateFlags) flags(a *app, command *cobra.Command) {
	s.source.flag(command)
	f := command.Flags()
	f.Var((*addresses)(&s.Addresses), "redis", "address of Redis, host:port; for a Redis Cluster some nodes")
	f.BoolVar(&s.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	f.BoolVar(&s.TLS, "redis-tls", false, "Redis speaks TLS")
	f.StringVar(&s.CA, "redis-ca", "", "file with the authority of Redis' certificate (default: the system's)")
	f.StringVar(&s.ServerName, "redis-server-name", "", "name in Redis' certificate (default: the host of --redis)")
	f.StringVar(&s.User, "redis-user", "", "user of Redis (default: the configuration's)")
	f.StringVar(&s.passwordEnv, "redis-password-env", "",
		"environment variable with Redis' password (default: the configuration's)")
	s.Timeout = 5 * time.Second
	f.Var(duration.New(&s.Timeout), "timeout", "how long to wait for Redis")
	f.StringVar(&s.tier, "tier", "", "the tier of limits_by (default: the one that the values choose, or all)")
	must(command.MarkFlagRequired("redis"))
	command.PreRunE = func(c *cobra.Command, _ []string) error { return a.settle(c.Flags()) }
}

// open reads the configuration and connects.
func (a *app) open(ctx context.Context, s *stateFlags) (*limiter, *state.Client, error) {
	if s.walks && s.KeysInAScanStep < 1 {
		return nil, nil, usage("--step: want at least 1")
	}
	l, err := a.limiter(s.source)
	if err != nil {
		return nil, nil, err
	}
	client, err := a.connect(ctx, s, l)
	return l, client, err
}

// connect opens the connection to Redis that flags and configuration describe.
func (a *app) connect(ctx context.Context, s *stateFlags, l *limiter) (*state.Client, error) {
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
		if !ok { // as the plugin does
			a.warn("note: the environment variable %s, which has Redis' password, is not set: Redis is asked without one\n",
				s.passwordEnv)
		}
		s.Password = strings.TrimRight(password, "\r\n")
	}
	if s.Password == "" {
		s.User = ""
	}
	client, err := state.Connect(ctx, s.Options)
	if err != nil {
		return nil, &failure{exitRedis, err}
	}
	return client, nil
}

// target finds the identity that the arguments name.
func (s *stateFlags) target(l *limiter, args []string) (*state.Identity, error) {
	var id *state.Identity
	var err error
	if s.identity != "" {
		if len(args) > 1 {
			return nil, usage("--identity stands in place of the values")
		}
		id, err = state.Tagged(l.cfg, args[0], s.tier, shown.Identity(s.identity))
	} else {
		id, err = state.Of(l.cfg, args[0], s.tier, args[1:])
	}
	if err != nil {
		return nil, usage("%w", err)
	}
	return id, nil
}

// identityCommand makes a command for one identity.
func (a *app) identityCommand(
	use, short, long string, s *stateFlags, run func(context.Context, *limiter, *state.Client, *state.Identity) error,
) *cobra.Command {
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
	s.flags(a, command)
	command.Flags().StringVar(&s.identity, "identity", "",
		"the identity as keys, logs and top show it, instead of the values")
	return command
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
	for _, l := range limits {
		if l.RetryMicros < 0 {
			return fmt.Sprintf("It may never go: %q admits nothing.", l.Name)
		}
	}
	return again(limits)
}

// again says when limits have room. A slot is free when a request ends, which no clock knows.
func again(limits []state.Status) string {
	longest, slots := state.Status{}, ""
	for _, l := range limits {
		switch {
		case l.RetryMicros > 0 && l.Window == "":
			slots = l.Name
		case l.RetryMicros > longest.RetryMicros:
			longest = l
		}
	}
	in := fmt.Sprintf("in %s, when %q has room", wait(longest.RetryMicros), longest.Name)
	switch {
	case slots != "" && longest.RetryMicros > 0:
		return fmt.Sprintf("It may go again %s, if one of its requests has ended by then: %q has no slot.", in, slots)
	case slots != "":
		return fmt.Sprintf("It may go again when one of its requests has ended: %q has no slot.", slots)
	case longest.RetryMicros > 0:
		return "It may go again " + in + "."
	}
	return "It may go now."
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
