package wasmhost

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestParseDeclaration(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, bytes        string
		property           string
		lasting, malformed bool
	}{
		{name: "a name alone", bytes: "\n\x01a", property: "a"},
		{name: "for the request", bytes: "\n\x01a(\x01", property: "a", lasting: true},
		{name: "all fields", bytes: "\n\x01a\x10\x01\x18\x01\"\x02xx(\x01", property: "a", lasting: true},
		{name: "for the filter chain", bytes: "(\x00\n\x01a", property: "a"},
		{name: "cut within a tag", bytes: "\n", malformed: true},
		{name: "cut within a string", bytes: "\n\x02a", malformed: true},
		{name: "another wire type", bytes: "\x0d\x01aaaa", malformed: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			name, lasting, ok := parseDeclaration([]byte(test.bytes))
			testenv.Same(t, "that it is well formed", ok, !test.malformed)
			testenv.Same(t, "the name", name, test.property)
			testenv.Same(t, "that it lasts", lasting, test.lasting)
		})
	}
}

// A configuration that was taken away stays until the last pass has ended.
func TestRedirectDuringReload(t *testing.T) {
	t.Parallel()
	h, p := startGuest(t, Options{}, "")
	s := tell(p, "/first")
	p.Close()
	h.Logs = nil
	next := s.Redirect(302, Request("GET", "/second"), true)
	if p.Closed() {
		t.Fatal("closed before the second pass")
	}
	next.End()
	expectLog(t, h, `
		/first log
		/first done
		/first delete
		/second request_headers 1
		/second log
		/second done
		/second delete
		plugin done
		plugin delete`)
}
