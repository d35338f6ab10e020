// Sluice checks, renders, converts, explains and simulates configurations of the
// rate limiter of that name, and looks at and changes its state in Redis.
// docs/cli.md describes each command.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// The exit codes, which docs/cli.md promises.
const (
	exitDone    = 0
	exitRefused = 1 // what was asked has a mistake: validate, a configuration that a command needs
	exitUsage   = 2 // unknown flags, missing arguments, files that cannot be read
	exitRedis   = 3 // Redis could not be reached, or refused
)

// failure is an error with an exit code of its own.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// errShown ends a command whose output has said what is wrong.
var errShown = errors.New("shown")

// version is set by the Makefile.
var version = "dev"

// app is one run of the command.
type app struct {
	in     io.Reader
	out    io.Writer
	errors io.Writer
	output string // "table" or "json"
	// environment is a variable of the environment, "" if it is not set.
	environment func(name string) string
}

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, errors: os.Stderr, environment: os.Getenv}
	os.Exit(a.run(os.Args[1:]))
}

// run executes one command line and returns its exit code.
func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errors)
	command, err := root.ExecuteC()
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errShown) {
		return exitRefused
	}
	a.warn("sluice: %v\n", err)
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	a.warn("%q lists what it takes\n", command.CommandPath()+" --help")
	return exitUsage
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "Configurations and state of the Sluice rate limiter",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.output != "table" && a.output != "json" {
				return usage("--output %q is unknown (want table or json)", a.output)
			}
			return nil
		},
	}
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "table", "table for people, json for programs")
	root.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(a.validateCommand(), a.renderCommand(), a.explainCommand(), a.convertCommand(), a.simulateCommand(),
		a.getCommand(), a.resetCommand(), a.overrideCommand(), a.blockCommand(), a.unblockCommand(), a.topCommand(),
		a.doctorCommand(), a.webhookCommand(), a.versionCommand())
	return root
}
