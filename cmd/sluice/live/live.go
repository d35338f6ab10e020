// Package live reads and changes what Redis holds of identities, and has the commands that do: get, reset,
// override, block, unblock and top.
package live

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/duration"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Commands are the commands that ask Redis.
func Commands(c *console.Console) []*cobra.Command {
	block := set(c, new(Flags), "block", "Reject all requests of an identity", "Block is override --to block.",
		func() (string, error) { return "block", nil })
	return []*cobra.Command{
		getCommand(c), resetCommand(c), overrideCommand(c), block, unblockCommand(c), topCommand(c),
	}
}

// Flags are the common flags of the commands that ask Redis.
type Flags struct {
	input.Source
	Options
	PasswordEnv string
	tier        string
	identity    *string // nil: the values make it
	sets        bool    // --tier is a tier that the identity gets
	gets        string  // that tier
	per         []string
	check       func(args []string) error // of the command's own flags and arguments; may be nil
}

func (f *Flags) Add(c *console.Console, command *cobra.Command) {
	f.Source.Flag(command)
	set := command.Flags()
	set.Var((*input.Addresses)(&f.Addresses), "redis", "address of Redis, host:port; for a Redis Cluster some nodes")
	set.BoolVar(&f.Cluster, "redis-cluster", false, "Redis is a Redis Cluster")
	set.BoolVar(&f.TLS, "redis-tls", false, "Redis speaks TLS")
	set.StringVar(&f.CA, "redis-ca", "", "file with the authority of Redis' certificate (default: the system's)")
	set.StringVar(&f.ServerName, "redis-server-name", "", "name in Redis' certificate (default: the host of --redis)")
	set.StringVar(&f.User, "redis-user", "", "user of Redis (default: the configuration's)")
	set.StringVar(&f.PasswordEnv, "redis-password-env", "",
		"environment variable with Redis' password (default: the configuration's)")
	f.Timeout = 5 * time.Second
	set.Var(duration.New(&f.Timeout), "timeout", "how long to wait for Redis")
	if f.sets {
		set.StringVar(&f.gets, "tier", "", "the tier of limits_by that the identity gets")
	} else {
		set.StringVar(&f.tier, "tier", "", "the tier of limits_by (default: the one that the values choose, or all)")
	}
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

// addWalk adds the flags of commands that walk over all keys.
func (f *Flags) addWalk(command *cobra.Command) {
	f.KeysInAScanStep, f.PauseOfScan = 100, time.Millisecond
	command.Flags().Int64Var(&f.KeysInAScanStep, "step", f.KeysInAScanStep, "keys in a step of the walk")
	command.Flags().Var(duration.New(&f.PauseOfScan), "pause", "time between two steps")
	f.check = func([]string) error {
		if f.KeysInAScanStep < 1 {
			return console.Usage("--step: want at least 1")
		}
		return nil
	}
}

// session is a command's connection to Redis, and the configuration it was opened for.
type session struct {
	*console.Console
	*Flags
	limiter *input.Limiter
	client  *Client
}

// asking completes a command that asks Redis, with the flags that all of them have.
func (f *Flags) asking(c *console.Console, command *cobra.Command,
	run func(context.Context, *session, []string) error,
) *cobra.Command {
	f.Add(c, command)
	console.Must(command.MarkFlagRequired("redis"))
	command.RunE = func(called *cobra.Command, args []string) error {
		if f.check != nil {
			if err := f.check(args); err != nil {
				return err
			}
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
		return run(called.Context(), &session{c, f, l, client}, args)
	}
	return command
}

// Connect opens the connection to Redis that flags and configuration describe.
func (f *Flags) Connect(ctx context.Context, c *console.Console, l *input.Limiter) (*Client, error) {
	f.Prefix = config.DefaultKeyPrefix
	if r := l.Config.Redis; r != nil {
		f.Prefix = r.KeyPrefix
		f.Password, f.Database = r.Password, int(r.Database)
		f.User = cmp.Or(f.User, r.Username)
		if f.Password == "" {
			f.PasswordEnv = cmp.Or(f.PasswordEnv, r.PasswordEnv)
		}
	}
	if f.PasswordEnv != "" {
		password, ok := c.Environment(f.PasswordEnv)
		if !ok { // as the plugin does
			c.Warn("note: the environment variable %s, which has Redis' password, is not set: Redis is asked without one\n",
				f.PasswordEnv)
		}
		f.Password = strings.TrimRight(password, "\r\n")
	}
	if f.Password == "" {
		f.User = ""
	}
	client, err := Connect(ctx, f.Options)
	return client, console.Redis(err)
}

// target finds the identity that the arguments name.
func (s *session) target(args []string) (id *Identity, err error) {
	switch {
	case s.identity == nil && slices.Contains(args[1:], ""):
		return nil, console.Usage("a value is empty, as of a variable that is not set (want --identity, if that is meant)")
	case s.identity == nil:
		if err := s.limiter.TakeHashSecret(s.Console); err != nil {
			return nil, err
		}
		id, err = Of(s.limiter.Config, args[0], s.tier, args[1:])
	case len(args) > 1:
		return nil, console.Usage("--identity stands in place of the values")
	default:
		id, err = Tagged(s.limiter.Config, args[0], s.tier, shown.Identity(*s.identity))
	}
	if err != nil {
		return nil, console.Usage("%w", err)
	}
	id.Per = s.per
	return id, nil
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
