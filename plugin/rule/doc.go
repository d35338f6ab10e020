// Package rule decides which rules apply to a request, and for each of them the
// identity that is counted, the cost and the limits. Compile prepares all that
// a configuration fixes; Set.Apply reads a Request and allocates nothing in
// steady state.
//
// Functions come in pairs: compileX makes an x from a configuration, and xOf is its
// value for the request at hand.
//
//	set, err := rule.Compile(cfg)                  // once, at load
//	applied, exempt, asking := set.Apply(request, &matcher) // each request
//
// # What is read
//
// Each attribute is read from the Request at most once, and only if a rule needs it. So are headers: a
// pseudo header alone if requests of late needed no other, else all in one call.
//
//   - Header values lose surrounding spaces and tabs, which RFC 9110, section
//     5.5, excludes from the value. Several fields of one name with different
//     values are many. (Envoy itself joins a few known headers with commas when
//     they repeat; the upstream then reads the joined value too.)
//   - The path is read as upstreams read it: without query and fragment, with
//     printable ASCII decoded and other escapes in upper case, repeated slashes
//     merged and dot segments resolved, in one pass, as servers and file systems
//     do: /a//../b is /b. Bytes that a URI cannot hold are percent-encoded, as is
//     a % that begins no escape. Control characters at the end are cut off. Of an
//     absolute URI the path counts; an empty path is /. A backslash, %2F and
//     ;parameters stay as they are: RFC 3986 makes them ordinary parts of a
//     segment, and only Envoy's own normalisation can make all upstreams agree on
//     them. Values of path matchers are written as paths read; regular expressions
//     see the normalised path, and match anywhere in it unless anchored.
//   - The host is :authority in lower case without its port and without the
//     dots at its end. An IPv6 literal keeps its brackets.
//   - The method is in upper case. HTTP/2 carries one that is not, such as post, and an
//     upstream may take it for POST or for another method: so whether a match by POST
//     holds for it is unknown (see below).
//   - A query parameter's name and value are form-decoded: %xx and + (a space).
//     Different values of the name are many; without = a value is empty.
//   - All Cookie fields are one, as if joined by "; " (RFC 9113, 8.2.3). A cookie's name
//     is compared exactly, without what no name has around it. Its value loses the white space
//     of Unicode around it, one pair of surrounding quotes, as most servers read it, and with
//     them the backslashes of \ooo and \c, and is then percent-decoded; + stays. Different
//     values of the name are many.
//   - A bearer token is the first run of a token's characters after the scheme, which may stand
//     anywhere in the Authorization header. Different ones are many, and none is odd. Another
//     scheme is absent.
//   - The client address is source.address: IPv4 in IPv6 counts as IPv4, the
//     spelling is canonical (RFC 5952), zones are dropped, and a shortened
//     prefix shows its length: 2001:db8::/64. Anything but an IP address is absent.
//   - Metadata is the attribute metadata.filter_metadata.<path>. Envoy passes
//     strings as they are, and other scalars as their machine representation
//     (numbers of metadata as a double, integer attributes as 64 bits, both
//     little endian; booleans as one byte), with no word about the type. Keys
//     are made of those bytes, so 42 and "42" are two identities; tiers are named
//     by the text of a whole number or boolean too: 42, true. Point at scalars:
//     the bytes of a map have no stable order.
//
// # How much is read
//
// The rules of a request share units of work, some for patterns and some for all else.
// A value that would take more units than are left counts as unknown, unless it is short, and so do
// values that are many or odd. A match that depends on it is unknown as well (Kleene's logic, so that
// "not" keeps it unknown), and then a rule applies and an exempt rule does not. In a key it is written
// %long, %many or %odd, which cannot be values. See docs/decisions/0012-bounded-matching.md.
//
// An exempt rule that compares the path holds only where the path is written as this
// package reads it: otherwise the upstream may read another one. One that compares the
// method holds only for a method in upper case. No rule exempts a path with a control character.
//
// # Absent and empty
//
// An empty value is a value. An absent one takes the component's default; with
// neither the rule does not apply.
//
// # Identities and keys
//
// A key is <prefix>:{<rule>|<identity>}:<algorithm>:<window>. What stands in the
// braces is the Tag: one rule and one identity are one hash slot. An identity is
// its components joined by |. In each of them |, {, }, %, space and control
// bytes are percent-encoded, in upper case.
//
// A component marked hash is the first 40 hexadecimal digits of the SHA-256 of
// its value, and an identity of more than 200 bytes is the 64 digits of its
// own. So that no value can pass for a digest, a value of 40 or 64 lower-case
// hexadecimal digits has its first digit percent-encoded, which happens to no
// other digit. One empty component is written %, which is not an escape, so that it
// differs from the identity of no components. Hence two lists of components build
// one identity only if SHA-256 collides.
package rule
