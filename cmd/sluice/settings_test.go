package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestSettings asks for an identity with what the environment and the file of settings say.
func TestSettings(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plugin := write(t, "plugin.json", counted)
	settings := func(text string) string { return write(t, "sluice.yaml", text) }
	both := "config: " + plugin + "\nredis: [" + server.Addr + "]\n"
	for _, c := range []struct {
		name        string
		environment map[string]string
		args        string
		code        int
		errors      string
	}{
		{"nothing", nil, "", exitUsage, `required flag(s) "config", "redis" not set`},
		{"the environment", map[string]string{"SLUICE_CONFIG": plugin, "SLUICE_REDIS": server.Addr}, "", exitDone, ""},
		{"a file", map[string]string{"SLUICE_SETTINGS": settings(both)}, "", exitDone, ""},
		{"a file of the user's", map[string]string{"XDG_CONFIG_HOME": filepath.Dir(settings(both))}, "", exitDone, ""},
		{"a file that is not there", map[string]string{"SLUICE_SETTINGS": "/nowhere"}, "", exitUsage, "open /nowhere"},
		{"no file of the user's", map[string]string{"HOME": "/nowhere"}, "", exitUsage, `required flag(s)`},
		{"the environment before the file", map[string]string{
			"SLUICE_SETTINGS": settings("config: /nowhere\nredis: x\n"),
			"SLUICE_CONFIG":   plugin, "SLUICE_REDIS": server.Addr,
		}, "", exitDone, ""},
		{
			"the command line before both",
			map[string]string{"SLUICE_CONFIG": "/nowhere", "SLUICE_REDIS": server.Addr},
			"-c " + plugin, exitDone, "",
		},
		{"a value that is none", map[string]string{
			"SLUICE_CONFIG": plugin, "SLUICE_REDIS": server.Addr,
			"SLUICE_TIMEOUT": "soon",
		}, "", exitUsage, `SLUICE_TIMEOUT: invalid argument "soon" for "--timeout" flag: "soon" is not a duration`},
		{
			"an unknown setting",
			map[string]string{"SLUICE_SETTINGS": settings("config: x\nredis-password: x\n")},
			"",
			exitUsage, `line 2: "redis-password" is not a setting (want one of config, redis,`,
		},
		{
			"a list of nothing",
			map[string]string{"SLUICE_SETTINGS": settings("timeout: [1s]\n")},
			"", exitUsage,
			"line 1: timeout is not a text",
		},
		{
			"no settings",
			map[string]string{"SLUICE_SETTINGS": settings("- a\n")},
			"", exitUsage,
			"want names of flags and their values",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errors bytes.Buffer
			a := &app{out: &out, errors: &errors, environment: func(name string) string { return c.environment[name] }}
			if code := a.run(append([]string{"get", "per-key", "alice"}, strings.Fields(c.args)...)); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(errors.String(), c.errors) {
				t.Errorf("%s\nwant %s", &errors, c.errors)
			}
		})
	}
}
