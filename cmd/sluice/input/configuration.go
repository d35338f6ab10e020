// Package input reads what commands are given: a configuration, a request, addresses.
package input

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/advice"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/plugin/calendar"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Source is the flag that names a configuration.
type Source struct{ File string }

// Flag adds the flag.
func (s *Source) Flag(command *cobra.Command) {
	command.Flags().StringVarP(&s.File, "config", "c", "",
		`file with the plugin's configuration: JSON, or a file that contains it; "-" is standard input`)
	console.Must(command.MarkFlagRequired("config"))
	console.Must(command.MarkFlagFilename("config", "json", "yaml", "yml"))
}

// Addresses is a flag of one or more "host:port", which may repeat. Unlike pflag's own list of
// strings it loses nothing that follows the end of a line.
type Addresses []string

// Set implements pflag.Value.
func (a *Addresses) Set(text string) error {
	*a = append(*a, strings.Split(text, ",")...)
	return nil
}

// Type implements pflag.Value.
func (a *Addresses) Type() string { return "strings" }

// String implements pflag.Value.
func (a *Addresses) String() string { return strings.Join(*a, ",") }

// Limiter is a configuration that a command works with.
type Limiter struct {
	JSON   []byte
	Config *config.Config
	Found  *find.Found // where the file has it
}

// TakeHashSecret finds the secret of keyed hashes, without which an identity's values are not those of
// its keys in Redis, in the shell's environment.
func (l *Limiter) TakeHashSecret(c *console.Console) error {
	name := l.Config.HashSecretEnv
	if _, ok := c.Environment(name); !ok && l.Config.UsesHashSecret() {
		return console.Usage("the environment variable %s is not set (want the secret under which Envoy hashes identities)",
			name)
	}
	return console.Misuse(l.Config.TakeHashSecret(c.Environment))
}

// Load reads a configuration as the plugin does, and refuses slow patterns in its expressions. The error is of
// type config.Mistakes.
func Load(text []byte) (*config.Config, error) {
	cfg, err := config.Checks{Expression: explain.CheckExpression, Zone: calendar.Known}.Parse(text)
	if err != nil {
		return nil, err
	}
	if slow := advice.Patterns(cfg); len(slow) > 0 {
		return nil, slow
	}
	if _, err := rule.Compile(cfg, nil); err != nil {
		return nil, config.Mistakes{{Problem: err.Error()}}
	}
	return cfg, nil
}

// Limiter reads the only configuration of a limiter in the file.
func (s *Source) Limiter(c *console.Console) (*Limiter, error) {
	text, err := c.Read(s.File)
	if err != nil {
		return nil, err
	}
	found, _, err := find.Configurations(s.File, text)
	if err != nil {
		return nil, console.Usage("%s: %w", s.File, err)
	}
	if len(found) == 0 {
		found = []find.Found{find.Whole(text)}
	}
	var all []*Limiter
	for i := range found {
		if found[i].Bridge {
			continue
		}
		cfg, err := Load(found[i].JSON)
		if mistakes, wrong := err.(config.Mistakes); wrong {
			var lines []string
			for _, m := range mistakes {
				lines = append(lines, strings.TrimPrefix(m.String(), "sluice: "))
			}
			return nil, console.Mistaken(s.File, lines)
		}
		all = append(all, &Limiter{found[i].JSON, cfg, &found[i]})
	}
	if len(all) != 1 {
		return nil, console.Usage("%s has %d configurations of the limiter (want a file with one)", s.File, len(all))
	}
	return all[0], nil
}

// Request is a request as flags describe it.
type Request struct {
	headers, properties []string
	clientIP, metadata  string
}

// Flags adds the flags that describe a request.
func (r *Request) Flags(command *cobra.Command) {
	f := command.Flags()
	f.StringArrayVarP(&r.headers, "header", "H", nil, "a header of the request, 'name: value'")
	f.StringVar(&r.clientIP, "client-ip", "", "the client's address, as Envoy finds it")
	f.StringArrayVar(&r.properties, "property", nil, "an attribute of Envoy, path.with.dots=value")
	f.StringVar(&r.metadata, "metadata", "", "dynamic metadata, a JSON object by filters' names")
}

// Make makes the request; args are its method, GET if that is left out, and its URL.
func (r *Request) Make(args []string) (*explain.Request, error) {
	method := "GET"
	if len(args) == 2 {
		method = args[0]
	}
	req, err := explain.NewRequest(method, args[len(args)-1])
	if err != nil {
		return nil, err
	}
	for _, header := range r.headers {
		err = cmp.Or(err, req.AddHeader(header))
	}
	for _, property := range r.properties {
		err = cmp.Or(err, req.SetProperty(property))
	}
	if r.clientIP != "" {
		err = cmp.Or(err, req.SetClientIP(r.clientIP))
	}
	if r.metadata != "" {
		err = cmp.Or(err, req.SetMetadata(r.metadata))
	}
	return req, err
}
