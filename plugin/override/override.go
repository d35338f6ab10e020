// Package override reads what an operator has set for an identity: the text of its override's key
// in Redis.
//
//	block            no request is admitted
//	free             no limit counts
//	x2, x0.5         a factor for the limits, 0.001 to 1000
//	tier:pro         the tier of limits_by, whatever its source says
//	limits:a=9/20,b=5  absolute numbers for limits by their policy names: units, and a burst
//
// Anything else is nonsense, and counts as no override. What a tier or a number means depends on
// the rule: see rule.Set.
package override

import (
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Kind is the kind of an override.
type Kind uint8

// The kinds.
const (
	None Kind = iota // there is no override
	Nonsense
	Free
	Block
	Factor
	Tier
	Numbers
)

// Override is a value, read.
type Override struct {
	Kind   Kind
	Factor int64  // in thousandths
	Rest   string // a tier's name, or the list of numbers: part of the value
}

// What stands before a tier's name, and before a list of numbers.
const (
	TierPrefix    = "tier:"
	NumbersPrefix = "limits:"
)

// Parse reads a value. It keeps nothing but a part of it.
func Parse(value string) (o Override) {
	switch {
	case value == "":
		return Override{Kind: None}
	case len(value) > algo.MaxOverrideBytes:
		return Override{Kind: Nonsense}
	case value == "free":
		return Override{Kind: Free}
	case value == "block":
		return Override{Kind: Block}
	case value[0] == 'x':
		whole, part, dotted := strings.Cut(value[1:], ".")
		factor, ok := digits(whole, wholeDigits)
		thousandths := int64(0)
		if ok && dotted {
			thousandths, ok = digits(part, partDigits)
		}
		for range partDigits - len(part) {
			thousandths *= 10
		}
		if factor = factor*algo.NoFactor + thousandths; ok && 0 < factor && factor <= algo.MaxFactor {
			return Override{Kind: Factor, Factor: factor}
		}
	}
	if name, ok := strings.CutPrefix(value, TierPrefix); ok && name != "" {
		return Override{Kind: Tier, Rest: name}
	}
	if list, ok := strings.CutPrefix(value, NumbersPrefix); ok && list != "" {
		return Override{Kind: Numbers, Rest: list}
	}
	return Override{Kind: Nonsense}
}

// The most digits of a factor, before and behind the point.
const (
	wholeDigits = 4
	partDigits  = 3
)

// digits reads 1 to most digits, and nothing else.
func digits(s string, most int) (n int64, ok bool) {
	if len(s) == 0 || len(s) > most {
		return 0, false
	}
	for i := range len(s) {
		if !text.IsDigit(s[i]) {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// Number is the size of one limit.
type Number struct {
	Limit string // its policy name, escaped: see Names
	Units int64
	Burst int64 // 0: none is given
}

// numberDigits is how many digits a number may have: those of algo.MaxUnits.
const numberDigits = 10

// Next reads the first number of a list, and returns the others. ok is false if it is none.
func Next(list string) (n Number, rest string, ok bool) {
	first, rest, more := strings.Cut(list, ",")
	if more && rest == "" {
		return n, "", false
	}
	name, size, found := strings.Cut(first, "=")
	units, burst, hasBurst := strings.Cut(size, "/")
	n.Limit = name
	n.Units, ok = digits(units, numberDigits)
	ok = ok && found && name != "" && n.Units <= algo.MaxUnits
	if ok && hasBurst {
		n.Burst, ok = digits(burst, numberDigits)
		ok = ok && n.Burst > 0 && n.Burst <= algo.MaxUnits
	}
	return n, rest, ok
}

// Names reports whether an escaped name stands for a policy name.
func Names(escaped, name string) bool {
	for ; escaped != "" && name != ""; name = name[1:] {
		c, length := escaped[0], 1
		if c == '%' {
			var ok bool
			if c, ok = text.Unescape(escaped, 0); !ok {
				return false
			}
			length = len("%25")
		}
		if c != name[0] {
			return false
		}
		escaped = escaped[length:]
	}
	return escaped == "" && name == ""
}

// AppendNumber appends a number to a list: the policy name, whose bytes that mean something else
// there are percent-encoded, the units, and the burst if it is not 0.
func AppendNumber(list []byte, name, units, burst string) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	for i := range len(name) {
		if c := name[i]; strings.IndexByte("%,=/", c) >= 0 {
			list = text.AppendEscape(list, c)
		} else {
			list = append(list, c)
		}
	}
	list = append(append(list, '='), units...)
	if burst != "" {
		list = append(append(list, '/'), burst...)
	}
	return list
}
