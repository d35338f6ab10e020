package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/plugin/calendar"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The report of validate, as -o json prints it.
type (
	validation struct {
		Files    []fileReport `json:"files"`
		Mistakes int          `json:"mistakes"` // of all files together
	}
	fileReport struct {
		File           string         `json:"file"`
		Error          string         `json:"error,omitempty"` // the file itself cannot be used
		Configurations []configReport `json:"configurations"`
		OtherPlugins   []string       `json:"other_plugins,omitempty"`
	}
	configReport struct {
		Line     int             `json:"line"`
		In       string          `json:"in"`
		Role     string          `json:"role,omitempty"` // absent if there are mistakes
		Rules    int             `json:"rules"`
		Mistakes []mistakeReport `json:"mistakes"`
		Notes    []mistakeReport `json:"notes,omitempty"` // what the log says about it at load
	}
	mistakeReport struct {
		Line    int    `json:"line"`
		Path    string `json:"path"`
		Problem string `json:"problem"`
	}
)

func (a *app) validateCommand() *cobra.Command {
	ifPresent := false
	command := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Report the mistakes that Envoy would log, with file and line",
		Long: `Validate finds configurations of the plugin in files and reports every mistake
in them, the very ones that Envoy would log. It knows plain JSON, Envoy's own
configuration, Istio's WasmPlugin and EnvoyFilter, Envoy Gateway's
EnvoyExtensionPolicy and EnvoyPatchPolicy, and ConfigMaps with any of them.
"-" is standard input.

It exits with 1 if there is a mistake, or a file without any configuration.`,
		Example: "  sluice validate envoy.yaml deploy/*.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.validate(args, ifPresent)
		},
	}
	command.Flags().BoolVar(&ifPresent, "if-present", false, "accept files without any configuration")
	return command
}

func (a *app) validate(names []string, ifPresent bool) error {
	all := validation{Files: []fileReport{}}
	for _, name := range names {
		report, err := a.validateFile(name, ifPresent)
		if err != nil {
			return err
		}
		all.Mistakes += report.mistakes()
		all.Files = append(all.Files, report)
	}
	if a.json() {
		if err := a.writeJSON(all); err != nil {
			return err
		}
	} else {
		for _, report := range all.Files {
			a.printValidation(report)
		}
	}
	if all.Mistakes > 0 {
		return errShown
	}
	return nil
}

func (a *app) validateFile(name string, ifPresent bool) (fileReport, error) {
	report := fileReport{File: name, Configurations: []configReport{}}
	text, err := a.read(name)
	if err != nil {
		return report, err
	}
	found, others, err := find.Configurations(name, text)
	if err != nil {
		report.Error = err.Error()
		return report, nil
	}
	if len(found)+len(others) == 0 && !ifPresent && json.Valid(text) {
		found = append(found, find.Whole(text))
	}
	for i := range found {
		report.Configurations = append(report.Configurations, check(&found[i]))
	}
	for _, other := range others {
		report.OtherPlugins = append(report.OtherPlugins, other.Name)
	}
	if len(found) == 0 && !ifPresent {
		report.Error = `no configuration of Sluice (want JSON with "rules", or a file of Envoy, Istio or Envoy Gateway with one)`
	}
	return report, nil
}

// load reads a configuration as the plugin does.
func load(text []byte) (*config.Config, error) {
	cfg, err := config.Checks{Expression: explain.CheckExpression, Zone: calendar.Known}.Parse(text)
	if err != nil {
		return nil, err
	}
	if !cfg.Bridge {
		_, err = rule.Compile(cfg, nil)
	}
	return cfg, err
}

// check reports on one configuration.
func check(f *find.Found) configReport {
	report := configReport{Line: f.Line, In: f.In, Mistakes: []mistakeReport{}}
	cfg, err := load(f.JSON)
	var mistakes config.Mistakes
	switch {
	case errors.As(err, &mistakes):
		for _, m := range mistakes {
			report.Mistakes = append(report.Mistakes, mistakeReport{f.LineOf(m.Path), m.Path, m.Problem})
		}
	case err != nil:
		report.Mistakes = append(report.Mistakes, mistakeReport{f.Line, "", err.Error()})
	case cfg.Bridge:
		report.Role = "bridge"
	default:
		report.Role, report.Rules = "limiter", len(cfg.Rules)
		for _, n := range cfg.Skipped() {
			report.Notes = append(report.Notes, mistakeReport{f.LineOf(n.Path), n.Path, n.Problem})
		}
	}
	return report
}

// mistakes counts what is wrong with a file.
func (r *fileReport) mistakes() int {
	count := 0
	if r.Error != "" {
		count++
	}
	for _, c := range r.Configurations {
		count += len(c.Mistakes)
	}
	return count
}

func (a *app) printValidation(r fileReport) {
	if r.Error != "" {
		fmt.Fprintf(a.out, "%s: %s\n", r.File, r.Error)
	}
	for _, c := range r.Configurations {
		for _, m := range c.Mistakes {
			path := m.Path
			if path != "" {
				path += ": "
			}
			fmt.Fprintf(a.out, "%s:%d: %s%s\n", r.File, m.Line, path, m.Problem)
		}
		if len(c.Mistakes) == 0 {
			fmt.Fprintf(a.out, "%s:%d: ok, %s\n", r.File, c.Line, c.summary())
		}
		for _, n := range c.Notes {
			fmt.Fprintf(a.out, "%s:%d: note: %s\n", r.File, n.Line, n.Problem)
		}
	}
}

// summary says in words what a valid configuration is.
func (c *configReport) summary() string {
	switch {
	case c.Role == "bridge":
		return c.In + ": the bridge"
	case c.Rules == 1:
		return c.In + ": 1 rule"
	}
	return fmt.Sprintf("%s: %d rules", c.In, c.Rules)
}
