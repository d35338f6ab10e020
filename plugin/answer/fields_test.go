package answer

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// member is a member of a List that is a String with Integer parameters.
type member struct {
	name   string
	params map[string]int64
}

// parameter is an Integer parameter whose key is one letter. An Integer has at most 15 digits.
var parameter = regexp.MustCompile(`^; *([a-z])=([0-9]{1,15})`)

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
			parts := parameter.FindStringSubmatch(s)
			if parts == nil {
				return nil, fmt.Errorf("no integer parameter at %q", s)
			}
			m.params[parts[1]], _ = strconv.ParseInt(parts[2], 10, 64)
			s = s[len(parts[0]):]
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
			i++
			if !strings.HasPrefix(s[i:], `"`) && !strings.HasPrefix(s[i:], `\`) {
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
	list, err := parseList(`"a\"b";q=1;w=2, "c"`)
	testenv.SameError(t, "a list", err, nil)
	want := []member{{`a"b`, map[string]int64{"q": 1, "w": 2}}, {"c", map[string]int64{}}}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("the list is %v, want %v", list, want)
	}
	for _, bad := range []string{``, `a`, `"a`, `"a",`, `"a" "b"`, `"a";q`, `"a";q=`, `"a\x"`, "\"\u00e9\"", `"a";q=1.5`} {
		if list, err := parseList(bad); err == nil {
			t.Errorf("list of %q is %v", bad, list)
		}
	}
}
