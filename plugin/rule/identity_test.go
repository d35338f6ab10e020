package rule

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// tagOf is the tag of a rule whose key is a list of constants, of any bytes.
func tagOf(t testing.TB, name string, key ...config.Component) string {
	t.Helper()
	cfg := parse(t, "")
	cfg.Rules[0].Name, cfg.Rules[0].Key = name, key
	set, err := Compile(cfg, nil)
	testenv.OK(t, err)
	list := tags(set, get("/"))
	testenv.Same(t, "rules that apply", len(list), 1)
	return list[0]
}

func constant(value string) config.Component {
	return config.Component{Source: config.FromConstant, Value: value}
}

func hashed(value string) config.Component {
	return config.Component{Source: config.FromConstant, Value: value, Hash: true}
}

func sha(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

func TestTag(t *testing.T) {
	t.Parallel()
	hex40, hex64 := strings.Repeat("0a", 20), strings.Repeat("f9", 32)
	for _, tt := range []struct {
		name string
		key  []config.Component
		want string
	}{
		{"global", nil, "global|"},
		{"r", []config.Component{constant("alice")}, "r|alice"},
		{"r", []config.Component{constant("a"), constant("b")}, "r|a|b"},
		{"r", []config.Component{constant("a|b")}, "r|a%7Cb"},
		{"r", []config.Component{constant("{}% \x00\x1f\x7f\n")}, "r|%7B%7D%25%20%00%1F%7F%0A"},
		{"r", []config.Component{constant("j\xc3\xbcrgen\xff:/?#~")}, "r|j\xc3\xbcrgen\xff:/?#~"},
		{"r", []config.Component{constant("")}, "r|%"},
		{"r", []config.Component{constant(""), constant("")}, "r||"},
		{"a|b {c}%", []config.Component{constant("x")}, "a%7Cb%20%7Bc%7D%25|x"},
		{"r", []config.Component{hashed("secret")}, "r|" + sha("secret")[:40]},
		{"r", []config.Component{hashed("")}, "r|" + sha("")[:40]},
		{"r", []config.Component{constant("a"), hashed("secret")}, "r|a|" + sha("secret")[:40]},
		{"r", []config.Component{hashed("a"), hashed("b")}, "r|" + sha("a")[:40] + "|" + sha("b")[:40]},
		{"r", []config.Component{hashed(strings.Repeat("x", 8192))}, "r|" + sha(strings.Repeat("x", 8192))[:40]},
		// No value passes for a digest.
		{"r", []config.Component{constant(hex40)}, "r|%30" + hex40[1:]},
		{"r", []config.Component{constant(hex64)}, "r|%66" + hex64[1:]},
		{"r", []config.Component{constant(strings.ToUpper(hex40))}, "r|" + strings.ToUpper(hex40)},
		{"r", []config.Component{constant(hex40[1:])}, "r|" + hex40[1:]},
		{"r", []config.Component{constant(hex40[1:] + "g")}, "r|" + hex40[1:] + "g"},
		// More than 200 bytes, counted as they are written.
		{"r", []config.Component{constant(strings.Repeat("x", 200))}, "r|" + strings.Repeat("x", 200)},
		{"r", []config.Component{constant(strings.Repeat("x", 201))}, "r|" + sha(strings.Repeat("x", 201))},
		{"r", []config.Component{constant(strings.Repeat("|", 67))}, "r|" + sha(strings.Repeat("%7C", 67))},
		{
			"r",
			[]config.Component{constant(strings.Repeat("x", 100)), constant(strings.Repeat("y", 100))},
			"r|" + sha(strings.Repeat("x", 100)+"|"+strings.Repeat("y", 100)),
		},
	} {
		if got := tagOf(t, tt.name, tt.key...); got != tt.want {
			t.Errorf("tag of %q, %.100v is %q, want %q", tt.name, tt.key, got, tt.want)
		}
	}
}

// TestDigestsAreKept hashes more values than a Matcher keeps the digests of, and some again. None gets
// another's digits, nor those of a rule whose hash is keyed.
func TestDigestsAreKept(t *testing.T) {
	t.Parallel()
	plain := parse(t, `"key": [{"header": "x-api-key", "hash": true}]`)
	keyed := parse(t, `"key": [{"header": "x-api-key", "hash": true}]`)
	both := parse(t, `"key": [{"header": "x-api-key", "hash": true}]`,
		`"name": "s", "key": [{"header": "x-api-key", "hash": true}]`)
	keyed.Rules[0].Key[0].Keyed, both.Rules[1].Key[0].Keyed = true, true
	for name, cfg := range map[string]*config.Config{"plain": plain, "keyed": keyed, "both": both} {
		set, err := Compile(cfg, nil)
		testenv.OK(t, err)
		var m Matcher
		for i := range 20 * maxDigested {
			value := strings.Repeat("x", i%300) + strconv.Itoa(i%(2*maxDigested)*(1+i%3))
			applied, _, _ := set.Apply(get("/", "x-api-key", value), &m)
			for _, a := range applied {
				want := sha(value)
				if name == "keyed" || a.Rule.Name == "s" {
					mac := hmac.New(sha256.New, nil)
					mac.Write([]byte(value))
					want = hex.EncodeToString(mac.Sum(nil))
				}
				testenv.Same(t, name+": the tag of "+value, string(a.Tag), a.Rule.Name+"|"+want[:hashDigits])
			}
		}
		if m.reset(compile(t, ""), get("/")); m.digested != nil {
			t.Error("digests outlive the rules that they are of")
		}
	}
}

// FuzzIdentity builds the tags of two lists of components. One list must be
// readable from its tag, and two lists must not share one.
func FuzzIdentity(f *testing.F) {
	hex40, hex64 := strings.Repeat("0a", 20), strings.Repeat("f9", 32)
	f.Add("r", "a,b", uint8(0), "r", "a|b", uint8(0))
	f.Add("r", "", uint8(0), "r", ",", uint8(0))
	f.Add("r", hex40, uint8(0), "r", "secret", uint8(1))
	f.Add("r", sha("secret")[:40], uint8(0), "r", "secret", uint8(1))
	f.Add("r", sha(strings.Repeat("x", 201)), uint8(0), "r", strings.Repeat("x", 201), uint8(0))
	f.Add("r", hex64, uint8(0), "r", "%66"+hex64[1:], uint8(0))
	f.Add("r|a", "b", uint8(0), "r", "a,b", uint8(0))
	f.Add("r", "%", uint8(0), "r", "%25", uint8(0))
	f.Add("r{", "}", uint8(0), "r", "{}", uint8(2))
	// The values stand between commas, and the bits of the hash say which of them are hashed. "-" is the empty list.
	f.Fuzz(func(t *testing.T, nameA, a string, hashA uint8, nameB, b string, hashB uint8) {
		var keys [2][]config.Component
		var both [2]string
		for n, of := range []struct {
			name, values string
			hash         uint8
		}{{nameA, a, hashA}, {nameB, b, hashB}} {
			for i, value := range strings.Split(of.values, ",") {
				if hash := of.hash>>(i%8)&1 == 1; of.values != "-" {
					keys[n] = append(keys[n], config.Component{Source: config.FromConstant, Value: value, Hash: hash})
				}
			}
			tag := tagOf(t, of.name, keys[n]...)
			both[n] = tag
			// It is read without help of the code under test.
			if strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '{' || r == '}' }) {
				t.Errorf("tag %q holds a byte that is ambiguous", tag)
			}
			rule, identity, _ := strings.Cut(tag, "|")
			testenv.Same(t, "the rule that a tag names", decodeAll(rule), of.name)
			if digest64.MatchString(identity) {
				continue // of a long identity
			}
			testenv.Within(t, "the bytes of an identity", len(identity), 0, maxIdentityBytes)
			var parts []string
			switch identity {
			case "":
			case "%":
				parts = []string{""}
			default:
				parts = strings.Split(identity, "|")
			}
			if len(parts) != len(keys[n]) {
				t.Fatalf("tag %q of %v", tag, keys[n])
			}
			for i, part := range parts {
				want, got := keys[n][i].Value, decodeAll(part)
				if keys[n][i].Hash {
					want = sha(want)[:40]
				}
				if got != want || keys[n][i].Hash != digest40.MatchString(part) {
					t.Errorf("component %d of %q is %q, want %q", i, tag, got, want)
				}
			}
		}
		same := nameA == nameB && slices.EqualFunc(keys[0], keys[1], func(x, y config.Component) bool {
			return x.Value == y.Value && x.Hash == y.Hash
		})
		if same != (both[0] == both[1]) {
			t.Errorf("tags are %q of %q, %v and %q of %q, %v", both[0], nameA, keys[0], both[1], nameB, keys[1])
		}
	})
}

var (
	digest40 = regexp.MustCompile(`^[0-9a-f]{40}$`)
	digest64 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)
