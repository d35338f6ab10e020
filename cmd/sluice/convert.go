package main

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/convert"
)

// conversion is the output of -o json.
type conversion struct {
	Configuration json.RawMessage      `json:"configuration"`
	Differences   []convert.Difference `json:"differences"`
}

// converted names the files to convert.
type converted struct {
	rateLimit, envoy, gateway, local, out string

	strict bool // what differs is an error
}

func convertCommand(c *console.Console) *cobra.Command {
	var from converted
	command := &cobra.Command{
		Use:   "convert",
		Short: "Turn another limiter's configuration into Sluice's, and list what differs",
		Long: `Convert takes envoyproxy/ratelimit's file together with Envoy's routes,
Envoy Gateway's BackendTrafficPolicy, or the local_ratelimit of Envoy and Istio.
The configuration goes to standard output, the list of differences to standard
error, by the rules that they are about:
"missing" has no counterpart and is left out, "differs" decides otherwise in
some case, "note" is worth a look.`,
		Example: "  sluice convert --ratelimit ratelimit.yaml --envoy envoy.yaml --out plugin.json\n" +
			"  sluice render envoy -c plugin.json --redis redis:6379 --out envoy.yaml",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return from.convert(c) },
	}
	f := command.Flags()
	f.StringVar(&from.rateLimit, "ratelimit", "", "file of envoyproxy/ratelimit; needs --envoy")
	f.StringVar(&from.envoy, "envoy", "", "file of Envoy with rate_limits; needs --ratelimit")
	f.StringVar(&from.gateway, "envoy-gateway", "", "file with a BackendTrafficPolicy of Envoy Gateway")
	f.StringVar(&from.local, "local-ratelimit", "", "file of Envoy, or EnvoyFilter of Istio, with local_ratelimit")
	f.StringVar(&from.out, "out", "", "file to write the configuration to (default: standard output)")
	f.BoolVar(&from.strict, "strict", false,
		"exit with 1 if anything is missing or differs, but for what every conversion differs in")
	for _, name := range []string{"ratelimit", "envoy", "envoy-gateway", "local-ratelimit"} {
		console.Must(command.MarkFlagFilename(name, "yaml", "yml", "json"))
	}
	command.MarkFlagsRequiredTogether("ratelimit", "envoy")
	command.MarkFlagsMutuallyExclusive("ratelimit", "envoy-gateway", "local-ratelimit")
	command.MarkFlagsOneRequired("ratelimit", "envoy-gateway", "local-ratelimit")
	return command
}

// result converts what was named.
func (from *converted) conversion(c *console.Console) (convert.Result, error) {
	file := func(name string) (convert.File, error) {
		text, err := c.Read(name)
		return convert.File{Name: name, Text: text}, err
	}
	first, err := file(from.rateLimit + from.gateway + from.local) // one of them
	if err != nil {
		return convert.Result{}, err
	}
	switch {
	case from.local != "":
		return convert.Local(first)
	case from.gateway != "":
		return convert.Gateway(first)
	}
	routes, err := file(from.envoy)
	if err != nil {
		return convert.Result{}, err
	}
	return convert.RateLimit(first, routes)
}

func (from *converted) convert(c *console.Console) error {
	result, err := from.conversion(c)
	if !c.JSON() || err != nil {
		group := ""
		for i := range result.Differences {
			d := &result.Differences[i]
			if d.Group() != group {
				group = d.Group()
				c.Warn("%s\n", group)
			}
			place := d.Place()
			if place != "" {
				place += ": "
			}
			c.Warn("  %s: %s%s\n", d.Kind, place, d.Text)
		}
	}
	if f := (*console.Failure)(nil); errors.As(err, &f) { // of a file that cannot be read
		return err
	}
	if err != nil {
		return &console.Failure{Code: console.Refused, Err: err}
	}
	if from.out != "" {
		if err := c.Write(from.out, result.JSON); err != nil {
			return err
		}
		c.Warn("wrote %s\n", from.out)
	}
	if c.JSON() {
		err = c.Print(conversion{result.JSON, append([]convert.Difference{}, result.Differences...)})
	} else if from.out == "" {
		_, err = c.Out.Write(result.JSON)
	}
	if err != nil {
		return err
	}
	isNote := func(d convert.Difference) bool {
		return d.Kind == convert.Note || d.Kind == convert.Differs && len(d.Rules) == 0 && d.File == ""
	}
	if from.strict && slices.ContainsFunc(result.Differences, func(d convert.Difference) bool { return !isNote(d) }) {
		return console.ErrShown
	}
	return nil
}
