package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/convert"
)

// conversion is what -o json prints.
type conversion struct {
	Configuration json.RawMessage      `json:"configuration"`
	Differences   []convert.Difference `json:"differences"`
}

// converted names the files to convert.
type converted struct {
	rateLimit, envoy, higress, gateway, out string
}

func (a *app) convertCommand() *cobra.Command {
	var from converted
	command := &cobra.Command{
		Use:   "convert",
		Short: "Turn another limiter's configuration into Sluice's, and list what differs",
		Long: `Convert takes envoyproxy/ratelimit's file together with Envoy's routes, Higress'
cluster-key-rate-limit, or Envoy Gateway's BackendTrafficPolicy. The
configuration goes to standard output, the list of differences to
standard error: "missing" has no counterpart and is left out, "differs" decides
otherwise in some case, "note" is worth a look.`,
		Example: "  sluice convert --ratelimit ratelimit.yaml --envoy envoy.yaml --out plugin.json\n" +
			"  sluice render envoy -c plugin.json --redis redis:6379 --out envoy.yaml",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.convert(&from) },
	}
	f := command.Flags()
	f.StringVar(&from.rateLimit, "ratelimit", "", "file of envoyproxy/ratelimit; needs --envoy")
	f.StringVar(&from.envoy, "envoy", "", "file of Envoy with rate_limits; needs --ratelimit")
	f.StringVar(&from.higress, "higress", "", "configuration of Higress' cluster-key-rate-limit, or a WasmPlugin with it")
	f.StringVar(&from.gateway, "envoy-gateway", "", "file with a BackendTrafficPolicy of Envoy Gateway")
	f.StringVar(&from.out, "out", "", "file to write the configuration to (default: standard output)")
	for _, name := range []string{"ratelimit", "envoy", "higress", "envoy-gateway"} {
		must(command.MarkFlagFilename(name, "yaml", "yml", "json"))
	}
	command.MarkFlagsRequiredTogether("ratelimit", "envoy")
	command.MarkFlagsMutuallyExclusive("ratelimit", "higress", "envoy-gateway")
	command.MarkFlagsOneRequired("ratelimit", "higress", "envoy-gateway")
	return command
}

// result converts what was named.
func (a *app) conversion(from *converted) (convert.Result, error) {
	first := from.rateLimit + from.higress + from.gateway // one of them
	text, err := a.read(first)
	if err != nil {
		return convert.Result{}, err
	}
	switch {
	case from.higress != "":
		return convert.Higress(text)
	case from.gateway != "":
		return convert.Gateway(text)
	}
	routes, err := a.read(from.envoy)
	if err != nil {
		return convert.Result{}, err
	}
	return convert.RateLimit(text, routes)
}

func (a *app) convert(from *converted) error {
	result, err := a.conversion(from)
	if err != nil && result.Differences == nil {
		var f *failure
		if errors.As(err, &f) {
			return err
		}
		return &failure{exitRefused, err}
	}
	if a.json() && err == nil {
		shown := conversion{result.JSON, append([]convert.Difference{}, result.Differences...)}
		return a.writeJSON(shown)
	}
	for _, d := range result.Differences {
		at := d.At
		if at != "" {
			at += ": "
		}
		fmt.Fprintf(a.errors, "%s: %s%s\n", d.Kind, at, d.Text)
	}
	if err != nil {
		return &failure{exitRefused, err}
	}
	if from.out != "" {
		if err := os.WriteFile(from.out, result.JSON, 0o644); err != nil {
			return usage("%w", err)
		}
		fmt.Fprintf(a.errors, "wrote %s\n", from.out)
		return nil
	}
	_, err = a.out.Write(result.JSON)
	return err
}
