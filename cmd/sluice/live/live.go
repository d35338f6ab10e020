// Package live reads and changes what Redis holds of identities, and has the commands that do: get, reset,
// override, block, unblock and top.
package live

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
)

// Commands are the commands that ask Redis.
func Commands(c *console.Console) []*cobra.Command {
	return []*cobra.Command{
		getCommand(c),
		removal(c, "reset", "Forget what an identity has used of its limits",
			"Reset deletes the state of an identity, of all limits of the rule. Overrides stay.\nA worker that remembers a "+
				"rejection forgets it within ten seconds. With --per it deletes that of these\nvalues alone.",
			(*session).reset, "there was nothing to forget", "the state of LIMITS is forgotten"),
		overrideCommand(c),
		set(c, new(Flags), "block", "Reject all requests of an identity", "Block is override --to block.",
			func() (string, error) { return "block", nil }),
		removal(c, "unblock", "Remove an identity's override or penalty",
			"Unblock removes blocks, other overrides and penalties.",
			(*session).unblock, "there was no override and no penalty", "its limits are in force again"),
		topCommand(c),
	}
}

// Flags are the common flags of the commands that ask Redis.
type Flags struct {
	input.Source
	Addresses   []string
	Cluster     bool
	TLS         bool
	Timeout     time.Duration
	PasswordEnv string
	// Prefix is that of all keys, and Ahead is how far Redis' clock is, once it is connected.
	Prefix string
	Ahead  time.Duration

	ca, serverName string // "": the system's authorities, the address' host
	user, password string
	step           int64         // keys in a step of SCAN
	pause          time.Duration // between its steps
	tier           string
	identity       *string // nil: the values make it
	sets           bool    // --tier is a tier that the identity gets
	per            []string
}

// Add adds them to a command, and takes their values from the environment, too.
func (f *Flags) Add(c *console.Console, command *cobra.Command) {
	f.Source.Flag(command)
	set := command.Flags()
	set.Var((*input.Addresses)(&f.Addresses), "redis", "address of Redis, host:port; for a Redis Cluster some nodes")
	set.BoolVar(&f.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	set.BoolVar(&f.TLS, "redis-tls", false, "Redis speaks TLS")
	set.StringVar(&f.ca, "redis-ca", "", "file with the authority of Redis' certificate (default: the system's)")
	set.StringVar(&f.serverName, "redis-server-name", "", "name in Redis' certificate (default: the host of --redis)")
	set.StringVar(&f.user, "redis-user", "", "user of Redis (default: the configuration's)")
	set.StringVar(&f.PasswordEnv, "redis-password-env", "",
		"environment variable with Redis' password (default: the configuration's)")
	f.step, f.Timeout = cmp.Or(f.step, 1000), 5*time.Second
	set.Var(duration.New(&f.Timeout), "timeout", "how long to wait for Redis")
	usage := "the tier of limits_by (default: the one that the values choose, or all)"
	if f.sets {
		usage = "the tier of limits_by that the identity gets"
	}
	set.StringVar(&f.tier, "tier", "", usage)
	command.PreRunE = FromEnvironment(c)
}

// addPer adds the flag that names a part of an identity.
func (f *Flags) addPer(command *cobra.Command) {
	command.Flags().StringArrayVar(&f.per, "per", nil,
		`a value of "per", once for each of its components, in the order of the limits (default: all that Redis has)`)
}

// addIdentity adds the flag that names an identity.
func (f *Flags) addIdentity(command *cobra.Command) {
	command.Flags().Func("identity", "the `identity` as keys, logs and top show it, instead of the values",
		func(text string) error {
			f.identity = &text
			return nil
		})
}

// session is a command's connection to Redis, and what it was opened for.
type session struct {
	*console.Console
	*Flags
	limiter *input.Limiter
	redis   redis.UniversalClient
}

// asking completes a command that asks Redis, with the flags that all of them have. An error of run that
// has no exit code of its own is one of Redis.
func (f *Flags) asking(c *console.Console, command *cobra.Command,
	run func(context.Context, *session, []string) error,
) *cobra.Command {
	f.Add(c, command)
	console.Must(command.MarkFlagRequired("redis"))
	command.RunE = func(called *cobra.Command, args []string) error {
		if f.step < 1 {
			return console.Usage("--step: want at least 1")
		}
		l, err := f.Limiter(c)
		if err != nil {
			return err
		}
		client, err := f.Connect(called.Context(), c, l)
		if err != nil {
			return err
		}
		defer client.Close()
		err = run(called.Context(), &session{c, f, l, client}, args)
		if known := (*console.Failure)(nil); err == nil || errors.Is(err, console.ErrShown) || errors.As(err, &known) {
			return err
		}
		return console.Redis(f.Explain(err))
	}
	return command
}

// walking completes a command that walks over all keys.
func (f *Flags) walking(c *console.Console, command *cobra.Command,
	run func(context.Context, *session, []string) error,
) *cobra.Command {
	command.Flags().Int64Var(&f.step, "step", 100, "keys in a step of the walk")
	f.pause = time.Millisecond
	command.Flags().Var(duration.New(&f.pause), "pause", "time between two steps")
	return f.asking(c, command, run)
}

// identityCommand makes a command for one identity.
func (f *Flags) identityCommand(c *console.Console, use, short, long string,
	run func(context.Context, *session, *Identity) error,
) *cobra.Command {
	command := &cobra.Command{
		Use:   use + " RULE [VALUE...]",
		Short: short,
		Long:  long + "\n\nThe values are those of the rule's key, in its order; leave out constants.",
		Args:  cobra.MinimumNArgs(1),
	}
	f.addIdentity(command)
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		id, err := s.target(args)
		if err != nil {
			return err
		}
		return run(ctx, s, id)
	})
}

// target finds the identity that the arguments name.
func (s *session) target(args []string) (id *Identity, err error) {
	tier := s.tier
	if s.sets {
		tier = ""
	}
	switch {
	case s.identity == nil && slices.Contains(args[1:], ""):
		return nil, console.Usage("a value is empty, as of a variable that is not set (want --identity, if that is meant)")
	case s.identity == nil:
		err = s.limiter.TakeHashSecret(s.Console)
	case len(args) > 1:
		err = console.Usage("--identity stands in place of the values")
	}
	if err != nil {
		return nil, err
	}
	t, err := NewTagger(s.limiter.Config, args[0])
	if err == nil {
		id, err = t.Identity(tier, s.identity, args[1:])
	}
	if err != nil {
		return nil, console.Misuse(err)
	}
	id.Per = s.per
	return id, nil
}

// changed is the output of the commands that change something.
type changed struct {
	Rule    string `json:"rule"`
	Tag     string `json:"tag"`
	Deleted int64  `json:"deleted"`         // keys
	Value   string `json:"value,omitempty"` // that was set
	For     string `json:"for,omitempty"`
}

// printChange prints what was done to an identity.
func (s *session) printChange(id *Identity, done changed, text string) error {
	done.Rule, done.Tag = id.Rule.Name, string(id.Tag)
	if s.JSON() {
		return s.Print(&done)
	}
	s.Say("%s: %s\n", done.Tag, text)
	return nil
}

// removal makes a command that deletes keys of an identity. LIMITS in done is how many.
func removal(c *console.Console, use, short, long string,
	remove func(*session, context.Context, *Identity) (int64, error), nothing, done string,
) *cobra.Command {
	f := new(Flags)
	command := f.identityCommand(c, use, short, long, func(ctx context.Context, s *session, id *Identity) error {
		n, err := remove(s, ctx, id)
		if err != nil {
			return err
		}
		text := nothing
		if n > 0 {
			text = strings.ReplaceAll(done, "LIMITS", console.Count(int(n), "limit"))
		}
		if id.Scanned {
			text += " (values of \"per\" found by a SCAN)"
		}
		return s.printChange(id, changed{Deleted: n}, text)
	})
	if use == "reset" {
		f.addPer(command)
	}
	return command
}
