package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/convert"
)

func convertCommand(c *console.Console) *cobra.Command {
	var rateLimit, envoy, gateway, local, out string
	strict := false
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
	}
	command.RunE = func(*cobra.Command, []string) error {
		files := []string{cmp.Or(rateLimit, gateway, local)}
		if rateLimit != "" {
			files = append(files, envoy)
		}
		var texts []convert.File
		for _, name := range files {
			text, err := c.Read(name)
			if err != nil {
				return err
			}
			texts = append(texts, convert.File{Name: name, Text: text})
		}
		var result convert.Result
		var err error
		switch {
		case rateLimit != "":
			result, err = convert.RateLimit(texts[0], texts[1])
		case gateway != "":
			result, err = convert.Gateway(texts[0])
		default:
			result, err = convert.Local(texts[0])
		}
		group := ""
		for i := range result.Differences {
			d := &result.Differences[i]
			if c.JSON() && err == nil {
				break
			}
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
		if err != nil {
			return &console.Failure{Code: console.Refused, Err: err}
		}
		if out != "" {
			if err := c.Write(out, result.JSON); err != nil {
				return err
			}
			c.Warn("wrote %s\n", out)
		}
		if c.JSON() {
			err = c.Print(result)
		} else if out == "" {
			_, err = c.Out.Write(result.JSON)
		}
		if err == nil && strict && slices.ContainsFunc(result.Differences, func(d convert.Difference) bool {
			return d.Kind != convert.Note && (d.Kind != convert.Differs || len(d.Rules) > 0 || d.File != "")
		}) {
			return console.ErrShown
		}
		return err
	}
	f := command.Flags()
	f.StringVar(&rateLimit, "ratelimit", "", "file of envoyproxy/ratelimit; needs --envoy")
	f.StringVar(&envoy, "envoy", "", "file of Envoy with rate_limits; needs --ratelimit")
	f.StringVar(&gateway, "envoy-gateway", "", "file with a BackendTrafficPolicy of Envoy Gateway")
	f.StringVar(&local, "local-ratelimit", "", "file of Envoy, or EnvoyFilter of Istio, with local_ratelimit")
	f.StringVar(&out, "out", "", "file to write the configuration to (default: standard output)")
	f.BoolVar(&strict, "strict", false,
		"exit with 1 if anything is missing or differs, but for what every conversion differs in")
	for _, name := range []string{"ratelimit", "envoy", "envoy-gateway", "local-ratelimit"} {
		console.Must(command.MarkFlagFilename(name, "yaml", "yml", "json"))
	}
	command.MarkFlagsRequiredTogether("ratelimit", "envoy")
	command.MarkFlagsMutuallyExclusive("ratelimit", "envoy-gateway", "local-ratelimit")
	command.MarkFlagsOneRequired("ratelimit", "envoy-gateway", "local-ratelimit")
	return command
}
