package config

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/plugin/message"
)

// reader collects the mistakes that are found while a configuration is read.
type reader struct {
	checks     Checks
	config     *Config              // what has been read of it
	compiled   map[string]error     // what checks said of each expression
	mistakes   Mistakes             // the first maxMistakes
	found      int                  // all
	rules      map[string]string    // the paths of the rules so far, by name
	limitNames map[string]nameOwner // the limits so far, by name
	ttls       map[string]ttlOwner  // the first limits, by rule and key, or of a rule's slots
}

// Bound: mistakes told of one configuration. Beyond it, the others are only counted. Protects
// memory and the log.
const maxMistakes = 1000

func (r *reader) mistake(path, format string, args ...any) {
	r.found++
	if r.found <= maxMistakes {
		r.mistakes = append(r.mistakes, Mistake{Path: path, Problem: message.Sprintf(format, args...)})
	}
}

// value is one JSON value and where it stands. Its methods read it as one type
// and report a mistake if it is another. It is a pointer, as copies of its 15 words
// would be a tenth of the parser's code in the .wasm.
type value = *located

type located struct {
	r      *reader
	path   string
	json   gjson.Result
	secret bool // messages do not show it
}

// mistake reports what is wrong with the value.
func (v value) mistake(format string, args ...any) { v.r.mistake(v.path, format, args...) }

// shown is the value as a message shows it.
func (v value) shown() string {
	switch {
	case v.json.IsObject():
		return "an object"
	case v.json.IsArray():
		return "a list"
	case v.secret && v.json.Type == gjson.String:
		return "a string"
	case v.secret && v.json.Type == gjson.Number:
		return "a number"
	case v.json.Type == gjson.String:
		return quoted(v.json.Str)
	case len(v.json.Raw) > maxShownBytes:
		return v.json.Raw[:maxShownBytes] + "..."
	}
	return v.json.Raw
}

// entry is one field of an object, in the order of the text.
type entry struct {
	name string
	value
}

// manyNames is how many names of an object are compared without a map. A map for each small object
// would take longer than all else.
const manyNames = 16

// readEntries reads an object whose names the user chooses. A name that stands
// twice is a mistake, and its first value counts.
func (v value) readEntries(what string) ([]entry, bool) {
	if !v.json.IsObject() {
		v.mistake("%s is not %s", v.shown(), what)
		return nil, false
	}
	all := make([]entry, 0, 4)
	var seen map[string]bool
	v.json.ForEach(func(name, field gjson.Result) bool {
		at := entry{name.Str, &located{r: v.r, path: joinPath(v.path, name.Str), json: field}}
		if seen == nil && len(all) == manyNames {
			seen = map[string]bool{}
			for i := range all {
				seen[all[i].name] = true
			}
		}
		twice := seen[name.Str]
		if seen == nil {
			twice = slices.ContainsFunc(all, func(e entry) bool { return e.name == name.Str })
		} else {
			seen[name.Str] = true
		}
		if twice {
			at.mistake("appears twice in one object (want it once)")
			return true
		}
		all = append(all, at)
		return true
	})
	return all, true
}

// find looks into an object without judging it.
func (v value) find(name string) (found value, ok bool) {
	if !v.json.IsObject() {
		return &located{}, false
	}
	v.json.ForEach(func(key, field gjson.Result) bool {
		if ok = key.Str == name; ok {
			found = &located{r: v.r, path: joinPath(v.path, name), json: field}
		}
		return !ok
	})
	return found, ok
}

// readList reads an array that has as many elements as its row says.
func (v value) readList(f *field) (all []value) {
	if !v.json.IsArray() {
		v.mistake("%s is not a list (want %s)", v.shown(), f.want)
		return nil
	}
	v.json.ForEach(func(_, element gjson.Result) bool {
		all = append(all, &located{r: v.r, path: v.path + "[" + strconv.Itoa(len(all)) + "]", json: element})
		return true
	})
	if len(all) == 0 && f.low > 0 {
		v.mistake("the list is empty (want %s)", f.want)
	}
	if f.high > 0 && int64(len(all)) > f.high {
		v.mistake("there are %d %s (want at most %d)", len(all), f.plural, f.high)
	}
	return all
}

// joinPath is the path of an object's field: "a.b", or `a["b c"]` where the name
// would be unclear.
func joinPath(path, name string) string {
	if name == "" || len(name) > maxShownBytes || !isWord(name, "_-") {
		return path + "[" + quoted(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// Mistake is one thing that is wrong with a configuration.
type Mistake struct {
	// Path leads to the value, such as "rules[1].limits[0].window", or to the
	// enclosing object for a missing field or a wrong combination. It is empty
	// for the whole configuration and "line 3, column 5" for broken JSON.
	Path string
	// Problem says what is wrong and, in parentheses, what would be right.
	Problem string

	more int // how many mistakes that are not shown this one stands for
}

// String is the mistake alone, without how many there are.
func (m Mistake) String() string {
	if m.Path == "" {
		return "sluice: " + m.Problem
	}
	return "sluice: " + m.Path + ": " + m.Problem
}

// Mistakes is the error that Parse returns: every mistake of a configuration,
// in the order of the text, except for those that concern two places in it.
type Mistakes []Mistake

// Error puts each mistake on a line of its own.
func (m Mistakes) Error() string { return strings.Join(m.Lines(), "\n") }

// Lines are the mistakes as Envoy logs them, each an entry of its own. Where
// there are several, each says which one it is: "(mistake 2 of 4)".
func (m Mistakes) Lines() []string {
	total := 0
	for _, mistake := range m {
		total += max(1, mistake.more)
	}
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
		if total > 1 && mistake.more == 0 {
			lines[i] += message.Sprintf(" (mistake %d of %d)", i+1, total)
		}
	}
	return lines
}

// Lines are the log entries for an error: one for each of Mistakes, or its text.
func Lines(err error) []string {
	if mistakes, ok := err.(Mistakes); ok {
		return mistakes.Lines()
	}
	return []string{err.Error()}
}

// Bound: bytes of a value that a mistake repeats. Beyond it, the value is cut. Protects the log.
const maxShownBytes = 64

// quoted shows a string of the configuration, cut to maxShownBytes bytes.
func quoted(s string) string {
	if len(s) <= maxShownBytes {
		return strconv.Quote(s)
	}
	at := maxShownBytes
	for at > 0 && !utf8.RuneStart(s[at]) { // cut no character
		at--
	}
	return strconv.Quote(s[:at]) + "..."
}

// quotedEach quotes each name.
func quotedEach(names []string) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = quoted(name)
	}
	return shown
}

// quotedList shows names as `"a", "b"`.
func quotedList(names []string) string { return strings.Join(quotedEach(names), ", ") }
