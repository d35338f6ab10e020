package config

import "github.com/tidwall/gjson"

// words are the words that a field may have, each beside what it stands for, in
// the order in which messages name them.
type words[T comparable] []word[T]

type word[T comparable] struct {
	means T
	text  string
}

// texts are the words alone.
func (w words[T]) texts() []string {
	texts := make([]string, len(w))
	for i := range w {
		texts[i] = w[i].text
	}
	return texts
}

// textsOf are the words for the given meanings, in their order.
func (w words[T]) textsOf(meanings []T) []string {
	texts := make([]string, 0, len(meanings))
	for _, meaning := range meanings {
		for i := range w {
			if w[i].means == meaning {
				texts = append(texts, w[i].text)
			}
		}
	}
	return texts
}

// meaning finds what a word stands for.
func (w words[T]) meaning(text string) (meaning T, ok bool) {
	for i := range w {
		if w[i].text == text {
			return w[i].means, true
		}
	}
	return meaning, false
}

// readWord reads one of a few words.
func readWord[T comparable](v value, known words[T]) (meaning T, ok bool) {
	if v.json.Type == gjson.String {
		meaning, ok = known.meaning(v.json.Str)
	}
	if !ok {
		v.mistake("%s is not a known value (want one of %s)", v.shown(), quotedList(known.texts()))
	}
	return meaning, ok
}

// readWordField reads an optional word into where its default stands, which a
// mistake leaves as it is.
func readWordField[T comparable](o object, name string, known words[T], into *T) {
	if v, ok := o.field(name); ok {
		if meaning, ok := readWord(v, known); ok {
			*into = meaning
		}
	}
}
