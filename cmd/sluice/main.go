// Sluice checks, renders, converts, explains and simulates configurations of the
// rate limiter of that name, and looks at and changes its state in Redis.
// docs/cli.md describes each command.
package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/doctor"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/cmd/sluice/play"
)

// version is set by the Makefile.
var version = "dev"

func main() {
	c := &console.Console{In: os.Stdin, Out: os.Stdout, Errors: os.Stderr, Environment: os.LookupEnv}
	os.Exit(run(c, os.Args[1:]))
}

// run executes one command line and returns its exit code.
func run(c *console.Console, args []string) int {
	root := rootCommand(c)
	root.SetArgs(args)
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Errors)
	command, err := root.ExecuteC()
	if err == nil {
		return console.Done
	}
	if errors.Is(err, console.ErrShown) {
		return console.Refused
	}
	c.Warn("sluice: %v\n", err)
	var f *console.Failure
	if errors.As(err, &f) {
		return f.Code
	}
	c.Warn("%q lists what it takes\n", command.CommandPath()+" --help")
	return console.Misused
}

func rootCommand(c *console.Console) *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "Configurations and state of the Sluice rate limiter",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if c.Output != "table" && c.Output != "json" {
				return console.Usage("--output %q is unknown (want table or json)", c.Output)
			}
			return nil
		},
	}
	root.PersistentFlags().StringVarP(&c.Output, "output", "o", "table", "table for people, json for programs")
	root.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(validateCommand(c), renderCommand(c), explainCommand(c), convertCommand(c), webhookCommand(c),
		&cobra.Command{
			Use: "version", Short: "Say which build this is", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				return c.Show(map[string]string{"version": version}, nil, version)
			},
		})
	root.AddCommand(play.Commands(c)...)
	root.AddCommand(live.Commands(c)...)
	root.AddCommand(doctor.Command(c))
	return root
}
