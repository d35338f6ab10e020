// Package message formats what is told of mistakes.
package message

import "strconv"

// Sprintf formats as fmt.Sprintf does, for what the messages of this module need: %s, %v, %d, %q,
// %x and %%, with "0" and a width, such as %08x, for numbers. An argument is a string, bytes, a
// whole number, or has Error or String. Package fmt would be a tenth of what Envoy has to compile
// when it loads the plugin.
func Sprintf(format string, args ...any) string {
	var out []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			out = append(out, format[i])
			continue
		}
		v := verb{letter: '!'} // of a format that ends too soon
		for i++; i < len(format); i++ {
			if c := format[i]; c < '0' || c > '9' {
				v.letter = c
				break
			}
			v.width = v.width*10 + int(format[i]-'0')
		}
		if v.letter == '%' {
			out = append(out, '%')
			continue
		}
		if len(args) == 0 {
			out = append(append(append(out, "%!"...), v.letter), "(MISSING)"...)
			continue
		}
		switch a := args[0].(type) {
		case string:
			out = v.appendString(out, a)
		case []byte:
			out = v.appendString(out, string(a))
		case error:
			out = v.appendString(out, a.Error())
		case interface{ String() string }:
			out = v.appendString(out, a.String())
		case int:
			out = v.appendWhole(out, int64(a))
		case int64:
			out = v.appendWhole(out, a)
		case rune:
			if v.letter == 'q' {
				out = strconv.AppendQuoteRune(out, a)
			} else {
				out = v.appendWhole(out, int64(a))
			}
		case byte:
			out = v.appendWhole(out, int64(a))
		default:
			out = append(append(append(out, "%!"...), v.letter), "(UNKNOWN)"...)
		}
		args = args[1:]
	}
	return string(out)
}

// verb is a letter behind "%", and the width to which zeros fill up a number.
type verb struct {
	letter byte
	width  int
}

func (v verb) appendString(dst []byte, s string) []byte {
	if v.letter == 'q' {
		return strconv.AppendQuote(dst, s)
	}
	return append(dst, s...)
}

func (v verb) appendWhole(dst []byte, n int64) []byte {
	base := 10
	if v.letter == 'x' {
		base = 16
	}
	if n < 0 {
		dst, n, v.width = append(dst, '-'), -n, v.width-1
	}
	digits := strconv.FormatUint(uint64(n), base)
	for range v.width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// Errorf is an error with a text that Sprintf formats. It wraps no other error.
func Errorf(format string, args ...any) error { return Error(Sprintf(format, args...)) }

// Error is an error that is its text.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }
