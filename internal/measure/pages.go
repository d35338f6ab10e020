package measure

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Page is a measurement as one document shows it.
type Page struct {
	// Text stands between the mark Begins and the mark Ends. Without Begins there is none.
	Begins, Text string
	// Sentences are pieces of the document, which has each once, with any numbers in it: "7" or "3.6 to
	// 5.9". Where its lines break does not matter, and "…" stands for anything within a line.
	Sentences []string
}

// Ends is the mark behind what a measurement writes into a document.
const Ends = "<!-- Until here. -->"

// Pages are documents, by their paths.
type Pages map[string]Page

// Changed are those documents below root that show something else, as they should be.
func (p Pages) Changed(root string) (map[string]string, error) {
	changed := map[string]string{}
	for name, page := range p {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		shown, err := page.in(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
		if shown != string(text) {
			changed[name] = shown
		}
	}
	return changed, nil
}

// Publish has the documents below root show the figures, and writes the files of the record. It writes
// nothing if a document has no place for a figure.
func (p Pages) Publish(root string, record map[string]string) error {
	files, err := p.Changed(root)
	if err != nil {
		return err
	}
	maps.Copy(files, record)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// in is a document with the figures.
func (p Page) in(text string) (string, error) {
	for _, sentence := range p.Sentences {
		var err error
		if text, err = renumber(text, sentence); err != nil {
			return "", err
		}
	}
	if p.Begins == "" {
		return text, nil
	}
	before, rest, begins := strings.Cut(text, p.Begins)
	_, after, ends := strings.Cut(rest, Ends)
	if !begins || !ends {
		return "", fmt.Errorf("has no place for the figures (want %q and %q)", p.Begins, Ends)
	}
	return before + p.Begins + p.Text + Ends + after, nil
}

const number = `[0-9]+(?:\.[0-9]+)?`

var numbers = regexp.MustCompile(number + `(?: to ` + number + `)?`)

// renumber puts the numbers of a sentence into a document that has the sentence with others.
func renumber(text, sentence string) (string, error) {
	literal := func(part string) string { return strings.ReplaceAll(regexp.QuoteMeta(part), "…", `[^\n]*?`) }
	var pattern strings.Builder
	from := 0
	for _, at := range numbers.FindAllStringIndex(sentence, -1) {
		pattern.WriteString(literal(sentence[from:at[0]]) + "(" + numbers.String() + ")")
		from = at[1]
	}
	pattern.WriteString(literal(sentence[from:]))
	places := regexp.MustCompile(strings.ReplaceAll(pattern.String(), " ", `\s+`)).FindAllStringSubmatchIndex(text, -1)
	if len(places) != 1 {
		return "", fmt.Errorf("has %d places for %q with any numbers, want one", len(places), sentence)
	}
	wanted := numbers.FindAllString(sentence, -1)
	for i := len(wanted); i > 0; i-- {
		begin, end := places[0][2*i], places[0][2*i+1]
		if strings.Join(strings.Fields(text[begin:end]), " ") != wanted[i-1] { // else its line may break as it did
			text = text[:begin] + wanted[i-1] + text[end:]
		}
	}
	return text, nil
}
