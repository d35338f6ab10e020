package rule

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var pathTests = []struct{ target, want string }{
	{"/x/..//%61pi/a", "/api/a"},
	{"/api/a", "/api/a"},
	{"/", "/"},
	{"", "/"},
	{"*", "*"},
	{"?a=b", "/"},
	{"/a?b=/../c", "/a"},
	{"/a#b?c", "/a"},
	{"/a?b#/../c", "/a"},
	{"/a%3Fb", "/a%3Fb"},
	{"/a%3fb%2a", "/a%3Fb*"},
	{"/%21%22%24%26%27%28%29%2A%2B%2C%3A%3C%3D%3E%40%5B%5D%5E%60%7B%7C%7D", "/!\"$&'()*+,:<=>@[]^`{|}"},
	{"/%20%23%25%2f%3b%3f%5c", "/%20%23%25%2F%3B%3F%5C"},
	// Control characters at the end.
	{"/login%0A", "/login"},
	{"/login%0a%0D%7F?x", "/login"},
	{"/login/%00", "/login/"},
	{"/a/..%0A", "/"},
	{"/a/..;%0A", "/"},
	{"/a%0A/..", "/"},
	{"/a%0Ab%09/", "/a%0Ab%09/"},
	{"/a%0A%20", "/a%0A%20"},
	{"/a%250A", "/a%250A"},
	{"/a%%0A", "/a%25"},
	{"/%1F", "/"},
	{"%0A", "/"},
	{"/%41%5A%61%7a%30%39%2D%2E%5F%7E", "/AZaz09-._~"},
	{"/%41%5a%61%7A%30%39%2d%2e%5f%7e", "/AZaz09-._~"},
	// Dot segments, RFC 3986, section 5.2.4.
	{"/a/b/c/./../../g", "/a/g"},
	{"/a/.", "/a/"},
	{"/a/..", "/"},
	{"/a/b/..", "/a/"},
	{"/..", "/"},
	{"/../../a", "/a"},
	{"/.", "/"},
	{"/a/...", "/a/..."},
	{"/.a/..b/c.", "/.a/..b/c."},
	{"/a/%2e%2E/b", "/b"},
	{"/a/.%2e/b/%2e/c", "/b/c"},
	// Repeated slashes.
	{"//", "/"},
	{"//host/a", "/host/a"},
	{"/a//b///c//", "/a/b/c/"},
	{"/a//../b", "/b"},
	// What RFC 3986 makes part of a segment.
	{`/a\..\b`, `/a\..\b`},
	{"/a%2F..%2fb", "/a%2F..%2Fb"},
	{"/a;p=1/..;x/b", "/b"},
	{"/a/.;x/b;c", "/a/b;c"},
	{"/a/;x/..%3Bx/...;x", "/a/;x/..%3Bx/...;x"},
	// What a URI cannot hold has one spelling too.
	{"/caf\xc3\xa9", "/caf%C3%A9"},
	{"/caf%c3%a9", "/caf%C3%A9"},
	{"/a b\x00\x7fc", "/a%20b%00%7Fc"},
	{"/a b\x00\x7f", "/a%20b"},
	{"/%", "/%25"},
	{"/%4", "/%254"},
	{"/%zz%4g", "/%25zz%254g"},
	{"/%%361", "/%2561"},
	{"/%2561", "/%2561"},
	// Targets that are not in origin form.
	{"http://host/a/../b?c", "/b"},
	{"HTTP://host", "/"},
	{"http://host?a/b", "/"},
	{"://host/a", "/:/host/a"},
	{"1http://host/a", "/1http:/host/a"},
	{"a/b", "/a/b"},
	{"../a", "/a"},
	{"**", "/**"},
}

func TestPath(t *testing.T) {
	t.Parallel()
	for _, tt := range pathTests {
		if got := string(appendPath(nil, tt.target)); got != tt.want {
			t.Errorf("path of %q is %q, want %q", tt.target, got, tt.want)
		}
		if got := string(appendPath([]byte("/x/"), tt.target)); got != "/x/"+tt.want {
			t.Errorf("appended path of %q is %q, want %q", tt.target, got, "/x/"+tt.want)
		}
	}
}

// normalised is the grammar of a normalised path: no byte that a URI cannot
// hold, escapes in upper case.
var normalised = regexp.MustCompile(`^(\*|/([!-$&->@-~]|%[0-9A-F]{2})*)$`)

// dotsWithParameters are dot segments that path.Clean does not know.
var dotsWithParameters = regexp.MustCompile(`/(\.\.?);[^/]*`)

func FuzzPath(f *testing.F) {
	for _, tt := range pathTests {
		f.Add(tt.target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		got := string(appendPath(nil, target))
		if again := string(appendPath(nil, got)); again != got {
			t.Errorf("path of %q is %q, and of that %q", target, got, again)
		}
		if !normalised.MatchString(got) || strings.Contains(got, "//") {
			t.Errorf("path of %q is %q", target, got)
		}
		if !strings.ContainsAny(target, "?#") {
			for _, end := range []string{"%0A", "%7f", "\x00"} {
				testenv.Same(t, "the path of "+target+end, string(appendPath(nil, target+end)), got)
			}
		}
		if strings.HasPrefix(target, "/") && !strings.Contains(target, "%") {
			raw, _, _ := strings.Cut(target, "#")
			raw, _, _ = strings.Cut(raw, "?")
			raw = strings.TrimRightFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f })
			want := path.Clean(dotsWithParameters.ReplaceAllString(raw, "/$1"))
			if decoded := strings.TrimSuffix(decodeAll(got), "/"); decoded != strings.TrimSuffix(want, "/") {
				t.Errorf("path of %q is %q, want %q as path.Clean has it", target, got, want)
			}
		}
	})
}

// decodeAll decodes every escape.
func decodeAll(s string) string { return string(appendDecoded(nil, s, false)) }

func TestLeadingSegments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path string
		n    int
		want string
	}{
		{"/a/b/c", 1, "/a"},
		{"/a/b/c", 2, "/a/b"},
		{"/a/b/c", 3, "/a/b/c"},
		{"/a/b/c", 9, "/a/b/c"},
		{"/a/b/", 2, "/a/b"},
		{"/a/b/", 3, "/a/b"},
		{"/a/", 1, "/a"},
		{"/", 1, "/"},
		{"*", 1, "*"},
	} {
		set := compile(t, fmt.Sprintf(`"key": [{"path": {"segments": %d}}]`, tt.n))
		testenv.SameList(t, tt.path, tags(set, get(tt.path)), []string{"r|" + tt.want})
	}
}
