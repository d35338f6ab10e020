package answer

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// member is a member of a List that is a String with Integer parameters.
type member struct {
	name   string
	params map[string]int64
}

// parseList reads such a List as RFC 9651, section 4.2.1, tells, and nothing
// else.
func parseList(s string) ([]member, error) {
	var list []member
	for {
		m := member{params: map[string]int64{}}
		var err error
		if m.name, s, err = parseString(s); err != nil {
			return nil, err
		}
		for strings.HasPrefix(s, ";") {
			key, rest, ok := strings.Cut(strings.TrimLeft(s[1:], " "), "=")
			end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
			if end < 0 {
				end = len(rest)
			}
			if !ok || len(key) != 1 || key[0] < 'a' || key[0] > 'z' || end == 0 || end > 15 {
				return nil, fmt.Errorf("no integer parameter at %q", s)
			}
			m.params[key], _ = strconv.ParseInt(rest[:end], 10, 64)
			s = rest[end:]
		}
		list = append(list, m)
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return list, nil
		}
		rest, ok := strings.CutPrefix(s, ",")
		if s = strings.TrimLeft(rest, " \t"); !ok || s == "" {
			return nil, fmt.Errorf("no member at %q", s)
		}
	}
}

// parseString reads a String, section 4.2.5.
func parseString(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", fmt.Errorf("no string at %q", s)
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", fmt.Errorf("no escape in %q", s)
			}
			b.WriteByte(s[i])
		case c < ' ' || c > '~':
			return "", "", fmt.Errorf("byte %x in %q", c, s)
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("no end of %q", s)
}

func TestParseList(t *testing.T) {
	t.Parallel()
	if list, err := parseList(`"a\"b";q=1;w=2, "c"`); err != nil || len(list) != 2 || list[0].name != `a"b` ||
		list[0].params["w"] != 2 {
		t.Errorf("list is %v, %v", list, err)
	}
	for _, bad := range []string{``, `a`, `"a`, `"a",`, `"a" "b"`, `"a";q`, `"a";q=`, `"a\x"`, "\"\u00e9\"", `"a";q=1.5`} {
		if list, err := parseList(bad); err == nil {
			t.Errorf("list of %q is %v", bad, list)
		}
	}
}
