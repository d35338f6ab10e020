package main

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// tz is POSIX' TZ of a zone with daylight saving time, as zic writes it: RFC 9636
// section 3.3.1. Without that, nothing follows the first offset.
var tz = regexp.MustCompile(`^(?:[A-Za-z]+|<[^>]+>)([-+0-9:]+)(?:(?:[A-Za-z]+|<[^>]+>)([-+0-9:]*),(.+),(.+))?$`)

var yearly = regexp.MustCompile(`^M(\d+)\.(\d)\.(\d)(?:/([-+0-9:]+))?$`)

// appendRule appends a zone's rule, nothing if it keeps its offset.
func appendRule(dst []byte, text string) (string, error) {
	found := tz.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("a rule of another form: %q", text)
	}
	if found[3] == "" {
		return string(dst), nil
	}
	standard, err := minutesOf(found[1])
	if err != nil {
		return "", err
	}
	daylight := standard - 60 // west of UTC, as TZ has it
	if found[2] != "" {
		if daylight, err = minutesOf(found[2]); err != nil {
			return "", err
		}
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, -standard), -daylight)
	for _, part := range found[3:] {
		if dst, err = appendYearly(dst, part); err != nil {
			return "", err
		}
	}
	return string(dst), nil
}

// appendYearly appends a moment of each year.
func appendYearly(dst []byte, text string) ([]byte, error) {
	found := yearly.FindStringSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("a moment of the year of another form: %q", text)
	}
	for _, digits := range found[1:4] {
		n, err := strconv.ParseUint(digits, 10, 8)
		if err != nil {
			return nil, err
		}
		dst = binary.AppendUvarint(dst, n)
	}
	if found[4] == "" {
		return binary.AppendVarint(dst, 120), nil // 02:00
	}
	at, err := minutesOf(found[4])
	return binary.AppendVarint(dst, at), err
}

// minutesOf reads "-3:30".
func minutesOf(text string) (int64, error) {
	unsigned := strings.TrimLeft(text, "+-")
	hours, rest, _ := strings.Cut(unsigned, ":")
	h, err := strconv.ParseInt(hours, 10, 16)
	if err != nil {
		return 0, err
	}
	m := int64(0)
	if rest != "" {
		if m, err = strconv.ParseInt(rest, 10, 8); err != nil {
			return 0, err
		}
	}
	if strings.HasPrefix(text, "-") {
		return -(h*60 + m), nil
	}
	return h*60 + m, nil
}
