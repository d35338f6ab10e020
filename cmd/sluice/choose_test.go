package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestChooseANumber runs the commands of docs/choose-a-number.md on a log of 1,000 customers.
func TestChooseANumber(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/choose-a-number.md")
	blocks := func(language string) (all []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"$\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
			all = append(all, m[1])
		}
		return all
	}
	commands, outputs, rules := blocks("sh"), blocks("text"), blocks("json")
	if got, want := [3]int{len(commands), len(outputs), len(rules)}, [3]int{2, 2, 1}; got != want {
		t.Fatalf("commands, outputs, configurations: %v, want %v", got, want)
	}
	_, rest, _ := strings.Cut(outputs[0], "in shadow:\n")
	printed, _, _ := strings.Cut(rest, "\nNext: ")
	files := map[string]string{
		"plugin.json": write(t, "plugin.json", rules[0]),
		"shadow.json": write(t, "shadow.json", `{"redis": {"cluster": "redis"}, "rules": [`+printed+`]}`),
		"access.log":  write(t, "access.log", accessLog()),
	}
	for i, command := range commands {
		args := strings.Fields(command)
		for j, arg := range args {
			if file, ok := files[arg]; ok {
				args[j] = file
			}
		}
		r := execute(t, "", args[1:]...)
		want, abridged := strings.CutSuffix(outputs[i], "...\n")
		if abridged {
			r.out = r.out[:min(len(r.out), len(want))]
		}
		if r.out != want {
			t.Errorf("%s prints\n%s%s\nthe page has\n%s", command, r.out, r.errors, want)
		}
	}
}
