package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	// answered is a recipe that says what it answers, without its heading.
	answered = regexp.MustCompile("(?s)\n```json\n([^`]*)```\n\n```sh answers\n([^`]*)```")
	answer   = regexp.MustCompile(`^curl -i ((?:-X POST )?)((?:-H '[^']+' )*)` +
		`\$E(/\S*) +# (\d+)(?:, (\d+) of (\d+) left)?$`)
	headerOption = regexp.MustCompile(`-H '([^']+)'`)
)

// TestCookbookAnswers sends what the recipes show, one request after the other.
func TestCookbookAnswers(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/cookbook.md")
	beside, lines := map[string]string{}, map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ") {
		heading, recipe, _ := strings.Cut(section, "\n")
		if r := answered.FindStringSubmatch(recipe); r != nil {
			name := regexp.MustCompile(`\W+`).ReplaceAllString(heading, "-")
			lines[name] = r[2]
			// All share a store, and so have rules of their own. On a busy machine an answer takes longer.
			beside[name] = strings.NewReplacer(`{"name": "`, fmt.Sprintf(`{"name": "r%d-`, len(lines)),
				`{"cluster": "redis"}`, `{"cluster": "redis", "timeout": "10s"}`).Replace(r[1])
		}
	}
	s := start(t, `{"rules": [{"name": "r", `+hundred+`}]}`, envoytest.Options{Beside: beside})
	for name, all := range lines {
		t.Run(name, func(t *testing.T) {
			for line := range strings.Lines(all) {
				line = strings.TrimSpace(line)
				said := answer.FindStringSubmatch(line)
				if said == nil {
					t.Fatalf("%s: want curl -i [-X POST] [-H 'NAME: VALUE']... $E/PATH # STATUS[, N of M left]", line)
				}
				var headers []string
				if said[1] != "" {
					headers = append(headers, ":method: POST")
				}
				for _, h := range headerOption.FindAllStringSubmatch(said[2], -1) {
					headers = append(headers, h[1])
				}
				r := get(t, s.Beside[name]+said[3], headers...)
				testenv.Same(t, line+": the status", strconv.Itoa(r.status), said[4])
				if said[6] != "" { // it says what is left
					testenv.Same(t, line+": what is left", r.header.Get("x-ratelimit-remaining"), said[5])
					testenv.Same(t, line+": of how many", r.header.Get("x-ratelimit-limit"), said[6])
				}
			}
		})
	}
	testenv.Same(t, "recipes that say what they answer", len(lines), strings.Count(string(page), "```sh answers\n"))
}
