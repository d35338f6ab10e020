package testenv

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
)

// WellFormed holds that a picture is XML, and returns the texts in it.
func WellFormed(t testing.TB, name string, picture []byte) (texts map[string]bool) {
	t.Helper()
	texts = map[string]bool{}
	for _, mistake := range []string{"%!", "NaN"} { // a format and its values that do not fit
		if bytes.Contains(picture, []byte(mistake)) {
			t.Errorf("%s has %q in it", name, mistake)
		}
	}
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("%s is no XML: %v", name, err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts[string(text)] = true
		}
	}
}
