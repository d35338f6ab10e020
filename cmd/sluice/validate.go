package main

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/advice"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/envoyfile"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// The report of validate, as -o json prints it.
type (
	validation struct {
		Files    []fileReport `json:"files"`
		Mistakes int          `json:"mistakes"` // of all files together
		Warnings int          `json:"warnings"`
	}
	fileReport struct {
		File           string         `json:"file"`
		Error          string         `json:"error,omitempty"`       // the file itself cannot be used
		PassedOver     string         `json:"passed_over,omitempty"` // why, with --if-present
		Configurations []configReport `json:"configurations"`
		OtherPlugins   []string       `json:"other_plugins,omitempty"`
	}
	configReport struct {
		Line     int            `json:"line"`
		In       string         `json:"in"`
		Role     string         `json:"role,omitempty"` // absent if there are mistakes
		Rules    int            `json:"rules"`
		Shadow   bool           `json:"shadow,omitempty"` // the top-level mode: no rule rejects
		Mistakes []find.Mistake `json:"mistakes"`
		Warnings []find.Mistake `json:"warnings,omitempty"`
		Notes    []find.Mistake `json:"notes,omitempty"` // what the log says about it at load
	}
)

func validateCommand(c *console.Console) *cobra.Command {
	var strict, ifPresent bool
	command := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Report the mistakes that Envoy would log, with file and line",
		Long: `Validate finds configurations of the plugin in files and reports every mistake
in them, the very ones that Envoy would log, and what the file around them gets
wrong, of which Envoy says nothing: a cluster that is missing, a filter in the
wrong place. A warning is what may be meant; --strict takes it for a mistake. It knows plain JSON, Envoy's own
configuration, Istio's TrafficExtension, WasmPlugin and EnvoyFilter, Envoy Gateway's
EnvoyExtensionPolicy and EnvoyPatchPolicy, and ConfigMaps with any of them.
"-" is standard input.

It exits with 1 if there is a mistake, or a file without any configuration. With
--if-present such a file is accepted, and one that does not parse is passed over.`,
		Example: "  sluice validate envoy.yaml deploy/envoy/*.yaml",
		Args:    cobra.MinimumNArgs(1),
	}
	command.RunE = func(_ *cobra.Command, names []string) error {
		all := validation{Files: []fileReport{}}
		for _, name := range names {
			report, err := validate(c, name, ifPresent)
			if err != nil {
				return err
			}
			if report.Error != "" {
				all.Mistakes++
			}
			for _, c := range report.Configurations {
				all.Mistakes += len(c.Mistakes)
				all.Warnings += len(c.Warnings)
			}
			all.Files = append(all.Files, report)
		}
		if c.JSON() {
			if err := c.Print(all); err != nil {
				return err
			}
		}
		for _, report := range all.Files {
			if !c.JSON() {
				report.print(c)
			}
		}
		if all.Mistakes > 0 || strict && all.Warnings > 0 {
			return console.ErrShown
		}
		return nil
	}
	command.Flags().BoolVar(&strict, "strict", false, "exit with 1 for warnings, too")
	command.Flags().BoolVar(&ifPresent, "if-present", false,
		"accept files without any configuration, and templates, which are neither YAML nor JSON")
	return command
}

// validate reports on a file. With ifPresent it need not have a configuration.
func validate(c *console.Console, name string, ifPresent bool) (fileReport, error) {
	report := fileReport{File: name, Configurations: []configReport{}}
	text, err := c.Read(name)
	if err != nil {
		return report, err
	}
	found, others, err := find.Configurations(name, text)
	if ifPresent && err == nil && len(found) == 1 && found[0].In == "JSON" && !json.Valid(found[0].JSON) &&
		!bytes.Contains(text, []byte(`"rules"`)) {
		err = errors.New("not JSON") // as editors' settings are not, which have comments
	}
	switch {
	case err != nil && ifPresent: // a template, perhaps
		report.PassedOver = err.Error()
	case err != nil:
		report.Error = err.Error()
	default:
		if len(found)+len(others) == 0 && !ifPresent && json.Valid(text) {
			found = append(found, find.Whole(text))
		}
		report.Configurations = append(report.Configurations, checkAll(found)...)
		report.OtherPlugins = others
		if len(found) == 0 && !ifPresent {
			report.Error = `no configuration of Sluice (want JSON with "rules", or a file of Envoy, Istio or Envoy Gateway ` +
				`with one)`
		}
	}
	return report, nil
}

// checkAll reports on the configurations of a file, and on their surroundings.
func checkAll(found []find.Found) (all []configReport) {
	for i := range found {
		f := &found[i]
		report := configReport{Line: f.Line, In: f.In, Mistakes: []find.Mistake{}}
		if f.Bridge {
			report.Role = "bridge"
			all = append(all, report)
			continue
		}
		cfg, err := input.Load(f.JSON)
		if mistakes, wrong := err.(config.Mistakes); wrong {
			report.Mistakes = located(f, mistakes)
		} else {
			report.Role, report.Rules, report.Shadow = "limiter", len(cfg.Rules), cfg.Mode == config.Shadow
			report.Warnings, report.Notes = located(f, advice.Warnings(cfg)), located(f, advice.Notes(cfg))
			for _, f := range envoyfile.Findings(f, cfg) {
				list := &report.Warnings
				if f.Error {
					list = &report.Mistakes
				}
				*list = append(*list, f.Mistake)
			}
		}
		all = append(all, report)
	}
	return all
}

// located finds the lines of mistakes.
func located(f *find.Found, mistakes []config.Mistake) (all []find.Mistake) {
	for _, m := range mistakes {
		all = append(all, f.Mistake(m.Path, m.Problem))
	}
	return all
}

func (r *fileReport) print(out *console.Console) {
	if r.Error != "" {
		out.Say("%s: %s\n", r.File, r.Error)
	}
	if r.PassedOver != "" {
		out.Say("%s: note: passed over, %s\n", r.File, r.PassedOver)
	}
	for _, c := range r.Configurations {
		said := console.Count(c.Rules, "rule")
		switch {
		case c.Role == "bridge":
			said = "the bridge"
		case c.Shadow:
			said += ", all in shadow"
		}
		if len(c.Mistakes) == 0 {
			out.Say("%s:%d: ok, %s: %s\n", r.File, c.Line, c.In, said)
		}
		for _, m := range c.Mistakes {
			out.Say("%s:%d: %s\n", r.File, m.Line, m)
		}
		for _, w := range c.Warnings {
			out.Say("%s:%d: warning: %s\n", r.File, w.Line, w)
		}
		for _, n := range c.Notes {
			out.Say("%s:%d: note: %s\n", r.File, n.Line, n.Problem)
		}
	}
}
