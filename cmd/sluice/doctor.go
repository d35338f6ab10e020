package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/doctor"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/cmd/sluice/state"
)

func (a *app) doctorCommand() *cobra.Command {
	s := &stateFlags{}
	envoy := ""
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Try whether Redis and Envoy are what a configuration needs",
		Long: `Doctor tries what the configuration needs of this Redis, under keys of its own
that it removes: every algorithm's worked examples by the very scripts that Envoy
sends, the user's rights, the clock, memory, persistence, and how long a check
takes. With --envoy it looks at what that Envoy runs, too.

Ask as Envoy's user, which is the configuration's unless --redis-user says
otherwise: it is its rights that matter. It exits with 1 if a check fails.`,
		Example: "  sluice doctor -c plugin.json --redis redis:6379 --envoy http://127.0.0.1:9901",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.doctor(c.Context(), s, envoy)
		},
	}
	s.flags(a, command)
	command.Flags().StringVar(&envoy, "envoy", "", "Envoy's admin interface, such as http://127.0.0.1:9901")
	return command
}

func (a *app) doctor(ctx context.Context, s *stateFlags, envoy string) error {
	l, err := a.limiter(s.source)
	if err != nil {
		return err
	}
	report := &doctor.Report{}
	if r := l.cfg.Redis; r != nil {
		a.passwordCheck(s, r.PasswordEnv, report)
	}
	client, err := a.connect(ctx, s, l)
	if err != nil {
		report.Add("redis", doctor.Fail, "look whether Redis runs, and at the address, the user and the password",
			"%s", errors.Unwrap(err))
	} else {
		defer client.Close()
		(&doctor.Redis{Client: client.Redis(), Config: l.cfg, Prefix: state.Prefix(l.cfg), Say: client.Say}).Look(ctx, report)
	}
	if envoy != "" {
		(&doctor.Envoy{URL: envoy, Timeout: s.Timeout, Load: load, Plugin: l.json}).Look(ctx, report)
	}
	return a.printReport(report)
}

// passwordCheck says whether the variable that has Redis' password is set here.
func (a *app) passwordCheck(s *stateFlags, name string, report *doctor.Report) {
	if s.passwordEnv != "" {
		name = s.passwordEnv
	}
	if name == "" {
		return
	}
	if _, ok := os.LookupEnv(name); ok {
		report.Add("password", doctor.Pass, "", "the environment variable %s is set here", name)
		return
	}
	report.Add("password", doctor.Fail, "set it here, and where Envoy starts: Envoy asks without a password otherwise",
		"the environment variable %s, which has Redis' password, is not set", name)
}

func (a *app) printReport(report *doctor.Report) error {
	if a.json() {
		for i := range report.Checks {
			c := &report.Checks[i]
			c.Found, c.Advice = shown.UTF8(c.Found), shown.UTF8(c.Advice)
		}
		if err := a.writeJSON(report); err != nil {
			return err
		}
	} else {
		rows := [][]string{{"CHECK", "STATUS", "FOUND"}}
		for _, c := range report.Checks {
			rows = append(rows, []string{c.Name, string(c.Status), c.Found})
			if c.Advice != "" {
				rows = append(rows, []string{"", "", "-> " + c.Advice})
			}
		}
		if err := a.table(rows); err != nil {
			return err
		}
	}
	if report.Failed() {
		return errShown
	}
	return nil
}
