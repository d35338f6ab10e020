package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// service is a file of envoyproxy/ratelimit.
// https://github.com/envoyproxy/ratelimit#configuration
type service struct {
	Domain      string
	Descriptors []*descriptor
}

type descriptor struct {
	Key, Value     string
	RateLimit      *rateLimit `yaml:"rate_limit"`
	Descriptors    []*descriptor
	ShadowMode     bool `yaml:"shadow_mode"`
	QuotaMode      bool `yaml:"quota_mode"`
	ShareThreshold bool `yaml:"share_threshold"`
	DetailedMetric bool `yaml:"detailed_metric"`
	ValueToMetric  bool `yaml:"value_to_metric"`

	at string // its place in the file
}

type rateLimit struct {
	Unit            string
	UnitMultiplier  int64 `yaml:"unit_multiplier"`
	RequestsPerUnit int64 `yaml:"requests_per_unit"`
	Unlimited       bool
	Name            string
	Replaces        []struct{ Name string }
}

// seconds are the lengths of the service's units (utils.UnitToDivider). None of them
// follows the calendar.
var seconds = map[string]int64{
	"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400, "month": 30 * 86400, "year": 365 * 86400,
}

func parseService(text []byte) (*service, error) {
	s := new(service)
	if err := yaml.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("not a file of envoyproxy/ratelimit: %w", err)
	}
	if s.Domain == "" || len(s.Descriptors) == 0 {
		return nil, errors.New(`not a file of envoyproxy/ratelimit (want "domain" and "descriptors")`)
	}
	s.place(s.Descriptors, "descriptors")
	return s, nil
}

// place says of each descriptor where it stands.
func (s *service) place(list []*descriptor, path string) {
	for i, d := range list {
		d.at = fmt.Sprintf("%s[%d]", path, i)
		s.place(d.Descriptors, d.at+".descriptors")
	}
}

// wildcard is the prefix of a value such as "abc*".
func (d *descriptor) wildcard() (prefix string, ok bool) {
	return strings.CutSuffix(d.Value, "*")
}

// window is a limit's window.
func (l *rateLimit) window() (string, error) {
	length, ok := seconds[strings.ToLower(l.Unit)]
	if !ok {
		return "", fmt.Errorf("unit %q is unknown", l.Unit)
	}
	length *= max(1, l.UnitMultiplier)
	for _, unit := range []struct {
		name   string
		length int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}} {
		if length%unit.length == 0 {
			return fmt.Sprintf("%d%s", length/unit.length, unit.name), nil
		}
	}
	return fmt.Sprintf("%ds", length), nil
}

// choice is which descriptor a value leads to, and for which values.
type choice struct {
	*descriptor
	exact    string   // the value, if isExact
	prefix   string   // of the values, if isPrefix
	not      []string // values that lead elsewhere
	notBegin []string // prefixes of values that lead elsewhere
	isExact  bool
	isPrefix bool
}

// any reports whether every value leads there.
func (c *choice) any() bool {
	return !c.isExact && !c.isPrefix && len(c.not) == 0 && len(c.notBegin) == 0
}

// static is where a known value leads: to the value itself, else to the first
// wildcard, else to the key alone.
func static(list []*descriptor, key, value string) *descriptor {
	var fallback *descriptor
	for _, d := range list {
		if d.Key == key && d.Value == value && value != "" {
			return d
		}
	}
	for _, d := range list {
		if d.Key != key {
			continue
		}
		if prefix, ok := d.wildcard(); ok && strings.HasPrefix(value, prefix) {
			return d
		}
		if d.Value == "" {
			fallback = d
		}
	}
	return fallback
}

// choices are where the values of a key may lead.
func choices(list []*descriptor, key string) (all []choice) {
	var exact, begun []string
	for _, d := range list {
		if _, wild := d.wildcard(); d.Key == key && !wild && d.Value != "" {
			exact = append(exact, d.Value)
		}
	}
	for _, d := range list {
		if d.Key != key {
			continue
		}
		prefix, wild := d.wildcard()
		switch {
		case wild:
			c := choice{descriptor: d, prefix: prefix, isPrefix: true, notBegin: slices.Clone(begun)}
			for _, value := range exact {
				if strings.HasPrefix(value, prefix) {
					c.not = append(c.not, value)
				}
			}
			begun = append(begun, prefix)
			all = append(all, c)
		case d.Value != "":
			all = append(all, choice{descriptor: d, exact: d.Value, isExact: true})
		}
	}
	for _, d := range list {
		if d.Key == key && d.Value == "" {
			all = append(all, choice{descriptor: d, not: exact, notBegin: begun})
		}
	}
	return all
}
