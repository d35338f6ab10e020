package rule

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const missing = "\x00missing"

// found is a value, or the mark of one that is unknown.
func found(value []byte, is state) string {
	switch {
	case is == absent:
		return missing
	case is.isUnknown():
		return marks[is]
	}
	return string(value)
}

func TestQueryValue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ target, want string }{
		{"/?key=v", "v"},
		{"/?a=1&key=v&b=2", "v"},
		{"/?key=first&key=second", "%many"},
		{"/?%6Bey=first&key=second", "%many"},
		{"/?key=v&%6Bey=%76&key=v", "v"},
		{"/?key=%76", "v"},
		{"/?key=a+b", "a b"},
		{"/?key=a%20b", "a b"},
		{"/?key=a%2Bb", "a+b"},
		{"/?key=a=b", "a=b"},
		{"/?key=%zz%4", "%zz%4"},
		{"/?key=", ""},
		{"/?key", ""},
		{"/?&&key=v", "v"},
		{"/?key=v#fragment", "v"},
		{"/?a?key=v", missing},
		{"/?a=b?c&key=v", "v"},
		{"/?a=1;key=v", missing},
		{"/?Key=v", missing},
		{"/?a=key", missing},
		{"/#?key=v", missing},
		{"/key=v", missing},
		{"", missing},
	} {
		if got := found(queryValue(nil, tt.target, "key", false)); got != tt.want {
			t.Errorf("key of %q is %q, want %q", tt.target, got, tt.want)
		}
	}
}

func TestQueryValueOfEmptyName(t *testing.T) {
	t.Parallel()
	if got := found(queryValue(nil, "/?&a=b&=v", "", false)); got != "v" {
		t.Errorf("the nameless parameter is %q, want %q", got, "v")
	}
}

// FuzzQueryValue holds the reading against net/url, which refuses some queries
// and takes the others as the WHATWG does.
func FuzzQueryValue(f *testing.F) {
	f.Add("a=1&key=v+%41", "key")
	f.Add("%6Bey=&&key", "key")
	f.Fuzz(func(t *testing.T, query, name string) {
		values, err := url.ParseQuery(query)
		if err != nil || strings.Contains(query, "#") {
			return
		}
		want := missing
		for i, value := range values[name] {
			if want = value; i > 0 && value != values[name][0] {
				want = marks[many]
				break
			}
		}
		if got := found(queryValue(nil, "/?"+query, name, false)); got != want {
			t.Errorf("%q of %q is %q, want %q", name, query, got, want)
		}
	})
}

func TestCookieValue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ header, want string }{
		{"sid=v", "v"},
		{"a=1; sid=v; b=2", "v"},
		{"a=1;sid=v;b=2", "v"},
		{" \tsid = v ;", "v"},
		{"sid=first; sid=second", "%many"},
		{`sid=v; sid="%76"; a=1; sid=v`, "v"},
		{"sid=%76", "v"},
		{"sid=a+b", "a+b"},
		{"sid=a=b", "a=b"},
		{"sid=%zz", "%zz"},
		{`sid="v"`, "v"},
		{`sid="%76"`, "v"},
		{`sid="v`, `"v`},
		{`sid="`, `"`},
		{`sid=""`, ""},
		{`sid="\141\b\""`, `ab"`},
		{`sid="a\"`, `a\`},
		{`sid="\\141"`, `\141`},
		{`sid="\400\18\1"`, "400181"},
		{`sid="\073\377"`, ";\xff"},
		{`sid="\04541\45"`, "A45"},
		{`sid="%5C141"`, `\141`},
		{`sid=\141`, `\141`},
		{"sid=", ""},
		{"sid; sid=v", "v"},
		{"SID=v", missing},
		{"%73id=v", missing},
		{"xsid=v", missing},
		{"a=sid", missing},
		{"", missing},
		{";;", missing},
	} {
		if got := found(cookieValue(nil, tt.header, "sid", false)); got != tt.want {
			t.Errorf("sid of %q is %q, want %q", tt.header, got, tt.want)
		}
	}
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ header, want string }{
		{"Bearer abc", "abc"},
		{"bearer abc", "abc"},
		{"bEARER \t  abc", "abc"},
		{"Bearer abc ", "abc"},
		{"Bearer a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="},
		{"Bearer abc def", "abc"},
		{"Bearer abc, x=1", "abc"},
		{"Bearer abc\xa0", "abc"},
		{"Bearer\xa0abc", "abc"},
		{"Bearer\x85\xc2\xa0abc\xff", "abc"},
		{"\xa0Bearer abc", "abc"},
		{", Bearer abc", "abc"},
		{"x, Bearer abc", "abc"},
		{"Basic x, Bearer abc", "abc"},
		{"Bearer ,abc", "abc"},
		{"Bearer:abc", "abc"},
		{"Bearer abc,Bearer abc", "abc"},
		{"Bearer abc,Bearer def", "%many"},
		{"Bearer Bearer abc", "%many"},
		{"Bearer", "%odd"},
		{"Bearer  \t", "%odd"},
		{"Bearer \xff", "%odd"},
		{"Basic bearer", "%odd"},
		{"Bearer abc, Bearer", "%odd"},
		{"Bearerabc", missing},
		{"Bearers abc", missing},
		{"Bearer=abc", missing},
		{"xBearer abc", missing},
		{"-Bearer abc", missing},
		{"Basic abc", missing},
		{"abc", missing},
		{"", missing},
	} {
		r := bearerToken(tt.header)
		if got := found([]byte(r.value), r.state); got != tt.want {
			t.Errorf("the token of %q is %q, want %q", tt.header, got, tt.want)
		}
	}
}

// TestQuotedCookies compares with what Python's http.cookies reads: see
// testdata/quoted_cookies.py.
func TestQuotedCookies(t *testing.T) {
	t.Parallel()
	data := testenv.Read(t, "testdata/quoted_cookies.json")
	var cases []struct{ Header, Value string }
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 500 {
		t.Errorf("only %d cases", len(cases))
	}
	for _, c := range cases {
		var want []byte
		for _, r := range c.Value {
			want = append(want, byte(r)) // a character is a byte, as in WSGI
		}
		if got := found(cookieValue(nil, c.Header, "sid", false)); got != string(want) {
			t.Errorf("sid of %q is %q, want %q", c.Header, got, want)
		}
	}
}
