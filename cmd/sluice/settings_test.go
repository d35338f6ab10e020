package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// getIn asks for an identity in an environment.
func getIn(environment map[string]string, args string) (code int, printed string) {
	var out, errors bytes.Buffer
	s := &console.Console{
		Out: &out, Errors: &errors,
		Environment: func(name string) string { return environment[name] },
	}
	code = run(s, append([]string{"get", "per-key", "alice"}, strings.Fields(args)...))
	return code, errors.String()
}

// TestSettings asks for an identity with what the environment and the file of settings say.
func TestSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plugin := write(t, "plugin.json", counted)
	settings := func(text string) string { return write(t, "sluice.yaml", text) }
	both := settings("config: " + plugin + "\nredis: [" + server.Addr + "]\n")
	for _, c := range []struct {
		name        string
		environment map[string]string
		args        string
		code        int
		errors      string
	}{
		{"nothing", nil, "", console.Misused, `required flag(s) "config", "redis" not set`},
		{"the environment", map[string]string{"SLUICE_CONFIG": plugin, "SLUICE_REDIS": server.Addr}, "", console.Done, ""},
		{"a file", map[string]string{"SLUICE_SETTINGS": both}, "", console.Done, ""},
		{"a file of the user's", map[string]string{"XDG_CONFIG_HOME": filepath.Dir(both)}, "", console.Done, ""},
		{"a file that is not there", map[string]string{"SLUICE_SETTINGS": "/nowhere"}, "", console.Misused, "open /nowhere"},
		{"no file of the user's", map[string]string{"HOME": "/nowhere"}, "", console.Misused, `required flag(s)`},
		{"the environment before the file", map[string]string{
			"SLUICE_SETTINGS": settings("config: /nowhere\nredis: x\n"),
			"SLUICE_CONFIG":   plugin, "SLUICE_REDIS": server.Addr,
		}, "", console.Done, ""},
		{
			"the command line before both",
			map[string]string{"SLUICE_CONFIG": "/nowhere", "SLUICE_REDIS": server.Addr},
			"-c " + plugin, console.Done, "",
		},
		{"a value that is not one", map[string]string{
			"SLUICE_CONFIG": plugin, "SLUICE_REDIS": server.Addr, "SLUICE_TIMEOUT": "soon",
		}, "", console.Misused, `SLUICE_TIMEOUT: invalid argument "soon" for "--timeout" flag: "soon" is not a duration`},
		{
			"an unknown setting",
			map[string]string{"SLUICE_SETTINGS": settings("config: x\nredis-password: x\n")},
			"",
			console.Misused, `line 2: "redis-password" is not a setting (want one of config, redis,`,
		},
		{
			"a list of nothing",
			map[string]string{"SLUICE_SETTINGS": settings("timeout: [1s]\n")},
			"", console.Misused,
			"line 1: timeout is not a text",
		},
		{
			"no settings",
			map[string]string{"SLUICE_SETTINGS": settings("- a\n")},
			"", console.Misused,
			"want names of flags and their values",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, errors := getIn(c.environment, c.args)
			testenv.Same(t, "the exit code", code, c.code)
			if !strings.Contains(errors, c.errors) {
				t.Errorf("%s\nwant %s", errors, c.errors)
			}
		})
	}
}
