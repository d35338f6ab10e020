package measure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestQuartiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values            []float64
		low, middle, high float64
	}{
		{[]float64{7}, 7, 7, 7},
		{[]float64{2, 1}, 1.25, 1.5, 1.75},
		{[]float64{5, 1, 4, 2, 3}, 2, 3, 4},
		{[]float64{4, 3, 2, 1}, 1.75, 2.5, 3.25},
	} {
		low, middle, high := Quartiles(c.values)
		got, want := [3]float64{low, middle, high}, [3]float64{c.low, c.middle, c.high}
		if got != want {
			t.Errorf("Quartiles(%v) = %v, want %v", c.values, got, want)
		}
	}
}

// TestSentences: a sentence finds its numbers wherever its lines break, and only in one place.
func TestSentences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ page, sentence, want string }{
		{"It takes 12\nµs, of Redis 3.5.", "takes 1.5 µs, of Redis 40", "It takes 1.5\nµs, of Redis 40."},
		{"× 14 µs (x)", "× 9 µs (x)", "× 9 µs (x)"},
		{"It adds 0.3\nto 0.4 or so", "adds 0.3 to 0.4 or", "It adds 0.3\nto 0.4 or so"},
		{"It adds 0.3\nto 0.4 or so", "adds 0.5 or", "It adds 0.5 or so"},
		{"It adds 0.3 or so", "adds 1 to 2 or", "It adds 1 to 2 or so"},
		{"| a | 3 of 4 | 7 | 8 |\n| b | 9 | 9 |", "| a |…| 1 | 2 |", "| a | 3 of 4 | 1 | 2 |\n| b | 9 | 9 |"},
		{"| a | x |\n| b | 9 | 9 |", "| a |…| 1 | 2 |", `a.md has 0 places for "| a |…| 1 | 2 |" with any numbers, want one`},
		{"takes 1 µs, takes 2 µs", "takes 7 µs", `a.md has 2 places for "takes 7 µs" with any numbers, want one`},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.md")
		if err := os.WriteFile(path, []byte(test.page), 0o600); err != nil {
			t.Fatal(err)
		}
		said := ""
		if err := (Pages{"a.md": {Sentences: []string{test.sentence}}}).Publish(dir, nil); err != nil {
			said = err.Error()
		}
		text := testenv.Read(t, path)
		if said == "" {
			said = string(text)
		}
		testenv.Same(t, test.sentence, said, test.want)
	}
}

// TestPublish writes nothing if one of the documents has no place for a figure.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "before <!-- a --> old " + Ends + " after", "b.md": "<!-- a --> but no end", "c.md": "3 of 4",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block := Page{Begins: "<!-- a -->", Text: " new "}
	sentence := Page{Sentences: []string{"7 of 8"}}
	for _, test := range []struct {
		name        string
		pages       Pages
		fails       string
		a, c, extra string
	}{
		{
			"no place",
			Pages{"a.md": block, "b.md": block, "c.md": sentence},
			`b.md has no place for the figures (want "<!-- a -->" and "<!-- Until here. -->")`,
			"before <!-- a --> old " + Ends + " after", "3 of 4", "",
		},
		{
			"no page",
			Pages{"d.md": block},
			"open " + dir + "/d.md: no such file or directory",
			"before <!-- a --> old " + Ends + " after", "3 of 4", "",
		},
		{
			"all have one",
			Pages{"a.md": block, "c.md": sentence},
			"",
			"before <!-- a --> new " + Ends + " after", "7 of 8", "{}",
		},
	} {
		said := ""
		if err := test.pages.Publish(dir, map[string]string{"e.json": "{}"}); err != nil {
			said = err.Error()
		}
		testenv.Same(t, test.name, said, test.fails)
		for name, want := range map[string]string{"a.md": test.a, "c.md": test.c, "e.json": test.extra} {
			text, _ := os.ReadFile(filepath.Join(dir, name))
			testenv.Same(t, test.name+": "+name, string(text), want)
		}
	}
}
