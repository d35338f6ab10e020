package redisresp

import (
	"errors"
	"strconv"
)

// What a malformed reply has wrong with it. [Decoder.Err] wraps one of these.
var (
	// ErrType: the first byte of a reply or element is not one of + - : $ *.
	ErrType = errors.New("unknown type byte")
	// ErrLine: a line holds a CR or LF that is not part of its CR LF end.
	ErrLine = errors.New("line is not ended by CR LF")
	// ErrNumber: an integer, length or count is not a decimal number.
	ErrNumber = errors.New("not a decimal number")
	// ErrOverflow: a number does not fit into 64 bits.
	ErrOverflow = errors.New("number does not fit into 64 bits")
	// ErrNegative: a length or count is negative and is not the -1 of null.
	ErrNegative = errors.New("negative length")
	// ErrBulkEnd: the bytes of a bulk string are not followed by CR LF.
	ErrBulkEnd = errors.New("bulk string is not ended by CR LF")

	// ErrLineTooLong: a line is longer than Limits.Line.
	ErrLineTooLong = errors.New("line is longer than the limit")
	// ErrTooLarge: the reply is larger than Limits.Bytes.
	ErrTooLarge = errors.New("reply is larger than the limit")
	// ErrTooMany: the reply has more elements than Limits.Elements.
	ErrTooMany = errors.New("reply has more elements than the limit")
	// ErrTooDeep: arrays are nested deeper than Limits.Depth.
	ErrTooDeep = errors.New("arrays are nested deeper than the limit")
)

// A SyntaxError says what makes a reply malformed, and where.
type SyntaxError struct {
	Offset int   // of the element at fault, in bytes from the start of the reply
	Err    error // one of the sentinels of this package
}

func (e *SyntaxError) Error() string {
	return "redisresp: offset " + strconv.Itoa(e.Offset) + ": " + e.Err.Error()
}

// Unwrap makes the sentinel visible to [errors.Is].
func (e *SyntaxError) Unwrap() error { return e.Err }
