package e2e

import (
	"net/http"
	"os"
	"path/filepath"
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
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "cookbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, section := range strings.Split(string(page), "\n## ") {
		heading, recipe, _ := strings.Cut(section, "\n")
		r := answered.FindStringSubmatch(recipe)
		if r == nil {
			continue
		}
		found++
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			options := envoytest.Options{Redis: []string{}}
			if strings.Contains(r[1], `"redis"`) {
				options.Redis = nil // one of its own
			}
			// On a busy machine an answer may take longer than a recipe gives it.
			e := start(t, strings.Replace(r[1], `{"cluster": "redis"}`, `{"cluster": "redis", "timeout": "10s"}`, 1), options)
			for line := range strings.Lines(r[2]) {
				expectAnswer(t, e, strings.TrimSpace(line))
			}
		})
	}
	testenv.Same(t, "recipes that say what they answer", found, strings.Count(string(page), "```sh answers\n"))
}

// expectAnswer sends the request of a line, and wants the answer that it says.
func expectAnswer(t *testing.T, e *setting, line string) {
	t.Helper()
	said := answer.FindStringSubmatch(line)
	if said == nil {
		t.Fatalf("%s: want curl -i [-X POST] [-H 'NAME: VALUE']... $E/PATH # STATUS[, N of M left]", line)
	}
	method := http.MethodGet
	if said[1] != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, e.URL+said[3], http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headerOption.FindAllStringSubmatch(said[2], -1) {
		name, value, _ := strings.Cut(h[1], ": ")
		req.Header.Set(name, value)
	}
	resp, err := shared.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	testenv.Same(t, line+": the status", strconv.Itoa(resp.StatusCode), said[4])
	if said[6] == "" { // it does not say what is left
		return
	}
	testenv.Same(t, line+": what is left", resp.Header.Get("x-ratelimit-remaining"), said[5])
	testenv.Same(t, line+": of how many", resp.Header.Get("x-ratelimit-limit"), said[6])
}
