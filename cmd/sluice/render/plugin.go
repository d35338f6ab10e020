package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/input"
)

// defaultPasswordEnv is the environment variable that takes a password's place.
const defaultPasswordEnv = "REDIS_PASSWORD"

// plugin is a plugin's configuration on its way into a file.
type plugin struct {
	text []byte // JSON
	// User and PasswordEnv are how Redis is entered; PasswordEnv is empty if it
	// has no password.
	user, passwordEnv string
	// secret is set if the configuration had the password itself.
	secret bool
}

// newPlugin reads a configuration, which must be valid, and takes its
// credentials out of it.
func newPlugin(o *Options) (*plugin, error) {
	cfg, err := input.Load(o.Plugin)
	if err != nil {
		return nil, err
	}
	if cfg.Redis != nil && len(o.Redis) == 0 {
		return nil, fmt.Errorf("the configuration has \"redis\", so its address is needed: --redis host:port")
	}
	p := &plugin{
		text: bytes.TrimPrefix(o.Plugin, []byte("\ufeff")), user: o.User, passwordEnv: o.PasswordEnv,
	}
	if cfg.Redis != nil {
		p.secret = cfg.Redis.Password != ""
		p.user = cmp.Or(p.user, cfg.Redis.Username)
		p.passwordEnv = cmp.Or(p.passwordEnv, cfg.Redis.PasswordEnv)
	}
	if p.passwordEnv == "" && (p.secret || p.user != "") {
		p.passwordEnv = defaultPasswordEnv
	}
	return p, nil
}

// connect names the Envoy cluster of Redis, and the credentials that the plugin
// sends itself.
func (p *plugin) connect(cluster string, sendsAuth bool) {
	fields := map[string]string{"cluster": cluster, "username": "", "password": "", "password_env": ""}
	if sendsAuth {
		fields["username"], fields["password_env"] = p.user, p.passwordEnv
	}
	old := gjson.GetBytes(p.text, "redis")
	var members []string
	add := func(name, raw string) { members = append(members, quote(name)+": "+raw) }
	old.ForEach(func(key, value gjson.Result) bool {
		replacement, ours := fields[key.Str]
		delete(fields, key.Str)
		switch {
		case !ours:
			add(key.Str, value.Raw)
		case replacement != "":
			add(key.Str, quote(replacement))
		}
		return true
	})
	for _, name := range []string{"cluster", "username", "password_env"} {
		if value := fields[name]; value != "" {
			add(name, quote(value))
		}
	}
	object := "{" + strings.Join(members, ", ") + "}"
	if old.Exists() {
		p.text = slices.Concat(p.text[:old.Index], []byte(object), p.text[old.Index+len(old.Raw):])
		return
	}
	brace := bytes.IndexByte(p.text, '{') + 1
	p.text = slices.Concat(p.text[:brace], []byte("\n  \"redis\": "+object+","), p.text[brace:])
}

func quote(s string) string {
	text, _ := json.Marshal(s) // no string of Go fails
	return string(text)
}

// literal is the configuration as a block of text.
func (p *plugin) literal() *yaml.Node {
	var lines []string
	for line := range strings.Lines(strings.Trim(string(p.text), "\r\n")) {
		// JSON has no tab or line end inside its strings.
		lines = append(lines, strings.TrimRight(strings.ReplaceAll(line, "\t", "  "), " \r\n"))
	}
	return &yaml.Node{
		Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle,
		Value: strings.Join(lines, "\n") + "\n",
	}
}

var (
	// Names, paths, durations and IPv4 addresses.
	plainWord = regexp.MustCompile(`^(/?[A-Za-z][A-Za-z0-9_./-]*|[0-9]+(ms|[smhd])|[0-9]+(\.[0-9]+){3})$`)
	// Words that some YAML parser takes for something else than text.
	words = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
)

// plain reports whether a string needs no quotes in any version of YAML.
func plain(s string) bool {
	return plainWord.MatchString(s) && !slices.Contains(words, strings.ToLower(s))
}

// scalar is a string as YAML, quoted where it has to be.
func scalar(s string) string {
	if plain(s) {
		return s
	}
	return quote(s)
}
