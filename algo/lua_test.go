package algo

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// ambient are the names that every body may use in addition to what it takes: what scripts begin
// with, and Redis' Lua.
var ambient = strings.Fields("call try now charged KEYS ARGV foreign count save " +
	"math string struct ipairs tonumber type " +
	"and break do else elseif end false for function if in local nil not or repeat return then true until while")

var (
	texts      = regexp.MustCompile(`'[^']*'|--[^\n]*|\{\w+ = [^}]*\}`)
	names      = regexp.MustCompile(`[.:]?\b[a-z_A-Z]\w*`)
	locals     = regexp.MustCompile(`\blocal ([\w, ]+)|\bfor ([\w, ]+) (?:in|=)`)
	unreadable = regexp.MustCompile(`-->|_[0-9]\b`)
)

// TestEveryLuaFileParses: each .lua file is plain Lua, which any tool for Lua reads.
func TestEveryLuaFileParses(t *testing.T) {
	t.Parallel()
	for file := range luaFiles {
		program := fmt.Sprintf("assert(loadfile(%q))", file+".lua")
		out, err := exec.CommandContext(t.Context(), testenv.Tool(t, "lua5.4"), "-e", program).CombinedOutput()
		if err != nil {
			t.Errorf("%s.lua: %v: %s", file, err, out)
		}
	}
}

// TestBodiesUseWhatTheyTake holds that each function uses only what it takes or declares,
// that it uses all that it takes, and that it returns names.
func TestBodiesUseWhatTheyTake(t *testing.T) {
	t.Parallel()
	for file, lua := range luaFiles {
		for _, code := range strings.Split(lua, "\n"+openingOfStep)[1:] {
			name, code, _ := strings.Cut(code, "(")
			code, _, _ = strings.Cut(code, "\nend\n")
			where := file + ".lua, " + name
			if found := unreadable.FindString(code); found != "" {
				t.Errorf("%s: %q is not Lua's own", where, found)
			}
			takes, body, _ := strings.Cut(texts.ReplaceAllString(code, ""), ")")
			known := split(takes)
			for _, declared := range locals.FindAllStringSubmatch(body, -1) {
				known = append(known, split(declared[1]+declared[2])...)
			}
			for i := range known {
				known[i] = strings.TrimSpace(known[i])
			}
			used := names.FindAllString(body, -1)
			for _, name := range used {
				if strings.ContainsAny(name, ".:") || slices.Contains(ambient, name) {
					continue
				}
				if !slices.Contains(known, name) {
					t.Errorf("%s: %q is not declared", where, name)
				}
			}
			for _, name := range split(takes) {
				if !slices.Contains(used, name) {
					t.Errorf("%s does not use %q", where, name)
				}
			}
		}
	}
}

// TestRoomForLocals holds that the longest scripts leave room for what a later feature
// needs: a Lua function has at most 200 local variables.
func TestRoomForLocals(t *testing.T) {
	t.Parallel()
	const spare = 4
	client := startRedis(t)
	for _, l := range everyLimit {
		var limits []Limit
		for range MaxLimits {
			l.WindowMicros += 1e6 * max(l.SubWindows, 1)
			limits = append(limits, l)
		}
		p := mustPlanWithTerms(t, Terms{Overrides: true, Penalty: threeStrikes}, limits...)
		for _, s := range []Script{p.ScriptWithoutTime(), p.RefundScriptWithoutTime()} {
			if err := client.ScriptLoad(ctx, "local a"+strings.Repeat(", a", spare-1)+"\n"+s.Source).Err(); err != nil {
				t.Errorf("%d of %s: %v", MaxLimits, l.Algorithm, err)
			}
		}
	}
}
