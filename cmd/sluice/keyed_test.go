package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const keyedPlugin = `{"redis": {"cluster": "redis"}, "hash_secret_env": "SLUICE_KEYED_TEST", "rules": [
	{"name": "a", "overrides": true, "key": [{"header": "x-phone", "hash": "keyed"}],
	 "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}]}`

// keyedTag is the tag of a phone number as the plugin makes it.
func keyedTag(t *testing.T, secret, phone string) string {
	t.Helper()
	cfg, err := input.Load([]byte(keyedPlugin))
	if err != nil {
		t.Fatal(err)
	}
	cfg.HashSecret = secret
	set, err := rule.Compile(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	req, err := explain.NewRequest("GET", "http://h/")
	if err != nil {
		t.Fatal(err)
	}
	req.AddHeader("x-phone: " + phone)
	var m rule.Matcher
	applied, _ := set.Apply(req, &m)
	return string(applied[0].Tag)
}

// TestKeyedIdentities: explain, get, override, block and reset find an identity by its value, with the secret of
// the shell's environment, and refuse to guess without it. What a key shows needs no secret.
func TestKeyedIdentities(t *testing.T) {
	const secret, phone = "0123456789abcdef", "+4930123456"
	server := redistest.Start(t)
	tag := keyedTag(t, secret, phone)
	run := func(args ...string) result {
		return execute(t, keyedPlugin, append(args, "-c", "-")...)
	}
	commands := [][]string{
		{"explain", "-H", "x-phone: " + phone, "GET", "http://h/"},
		{"get", "-H", "x-phone: " + phone, "http://h/", "--redis", server.Addr},
		{"get", "a", phone, "--redis", server.Addr},
		{"override", "a", phone, "--to", "x2", "--redis", server.Addr},
		{"reset", "a", phone, "--redis", server.Addr},
	}
	for _, args := range commands {
		r := run(args...)
		testenv.Same(t, strings.Join(args, " ")+": exit code without the secret", r.code, console.Misused)
		testenv.Same(t, "that the variable is named: "+r.errors,
			strings.Contains(r.errors, "the environment variable SLUICE_KEYED_TEST is not set"), true)
	}
	_, identity, _ := strings.Cut(tag, "|")
	r := run("get", "a", "--identity", identity, "--redis", server.Addr)
	testenv.Same(t, "exit code by the key's own text: "+r.errors, r.code, console.Done)

	t.Setenv("SLUICE_KEYED_TEST", "short")
	r = run(commands[0]...)
	testenv.Same(t, "that the length is named: "+r.errors, strings.Contains(r.errors, "has 5 bytes"), true)

	t.Setenv("SLUICE_KEYED_TEST", secret)
	for _, args := range commands {
		r := run(args...)
		testenv.Same(t, strings.Join(args, " ")+": exit code: "+r.errors, r.code, console.Done)
	}
	r = run(commands[0]...)
	testenv.Same(t, "that explain shows the key of "+tag+": "+r.out, strings.Contains(r.out, "{"+tag+"}"), true)
	value := server.Client().Get(t.Context(), "rl:{"+tag+"}:override").Val()
	testenv.Same(t, "that the override is the identity's: "+value, strings.HasPrefix(value, "x2"), true)
}

// TestKeyedWithoutSecret: validate wants the plugin to be given the variable with the secret.
func TestKeyedWithoutSecret(t *testing.T) {
	t.Parallel()
	without := "kind: WasmPlugin\nmetadata: {name: a}\nspec:\n  pluginConfig: " +
		strings.ReplaceAll(strings.ReplaceAll(keyedPlugin, "\n", ""), "\t", "") + "\n"
	checkFindings(t, without, 4, `hash_secret_env: the plugin is not given the environment variable "SLUICE_KEYED_TEST" `+
		`(want {name: SLUICE_KEYED_TEST, valueFrom: HOST} in spec.vmConfig.env)`)
}
