package live

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
)

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

// removal makes a command that deletes something of an identity, and says how many keys.
func (f *Flags) removal(c *console.Console, use, short, long string,
	remove func(*Client, context.Context, *Identity) (int64, error), say func(n int64) string,
) *cobra.Command {
	return f.identityCommand(c, use, short, long,
		func(ctx context.Context, s *session, id *Identity) error {
			n, err := remove(s.client, ctx, id)
			if err != nil {
				return console.Redis(err)
			}
			text := say(n)
			if id.Scanned {
				text += " (values of \"per\" found by a SCAN)"
			}
			return s.printChange(id, changed{Deleted: n}, text)
		})
}

func resetCommand(c *console.Console) *cobra.Command {
	f := new(Flags)
	command := f.removal(c, "reset", "Forget what an identity has used of its limits",
		"Reset deletes the state of an identity, of all limits of the rule. Overrides stay.\nA worker that remembers a "+
			"rejection forgets it within ten seconds. With --per it deletes that of these\nvalues alone.",
		(*Client).Reset, func(n int64) string {
			if n == 0 {
				return "there was nothing to forget"
			}
			return fmt.Sprintf("the state of %s is forgotten", console.Count(int(n), "limit"))
		})
	f.addPer(command)
	return command
}

func unblockCommand(c *console.Console) *cobra.Command {
	return new(Flags).removal(c, "unblock", "Remove an identity's override or penalty",
		"Unblock removes blocks, other overrides and penalties.",
		(*Client).Unblock, func(n int64) string {
			if n == 0 {
				return "there was no override and no penalty"
			}
			return "its limits are in force again"
		})
}
