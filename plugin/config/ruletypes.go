package config

import (
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

// Mode is the effect of a rejection by the rule.
type Mode uint8

// The modes of a rule.
const (
	Enforce Mode = iota
	Shadow
	Off
)

// Rule is one entry of "rules". An Exempt rule has Match only.
type Rule struct {
	Name   string
	Exempt bool
	Mode   Mode
	// Failure decides the rule's checks if Redis does not.
	Failure FailureMode
	Match   Match
	Key     []Component
	Cost    Amount  // Max is algo.MaxCost unless configured
	Settle  *Settle // nil: a charge stands
	Limits  []Limit // nil when Tiers is set
	Tiers   *Tiers
	// Overrides makes what an operator has set for an identity in Redis count.
	Overrides bool
	Penalty   *algo.Penalty // nil: none
	Over      *Over         // nil: whom it rejects gets a 429
	// Response is the answer to whom it rejects; nil: the configuration's.
	Response *Response
	Silent   bool // clients see nothing of its limits
}

// Settle says how the response corrects the charge of a request.
type Settle struct {
	// Status are the status codes that keep the charge. With any other it is given
	// back. nil: any keeps it.
	Status []StatusRange
	Expr   string      // CEL in place of Status: true keeps the charge; "" for none
	Cost   *SettleCost // nil: the charge stays as it was
	// Release gives the charge back where an answer lacks the value that would settle it, and
	// MissingCost is its worth in units, 0 for none. Otherwise the charge stands.
	Release     bool
	MissingCost int64
}

// StatusRange is a range of status codes, both included.
type StatusRange struct{ First, Last int }

// SettleCost is the true cost of a request: a number of the response,
// divided by Per and rounded up, at most Max.
type SettleCost struct {
	Amount // Header is a response header; Default has no meaning
	Per    int64
}

// Match is a conjunction: every field that is set must hold, and none of Not may.
type Match struct {
	Path    *StringMatch
	Host    *StringMatch // compared in lower case and without port
	Methods []string
	Headers []NamedMatch // in the configuration's order, as the next two are
	Query   []NamedMatch
	Cookies []NamedMatch
	// ClientIP are networks. The client's address must be in one of them.
	ClientIP []ipaddr.Prefix
	Expr     string // CEL; "" for none
	Not      []Match
}

// Named are the conditions on what a component of this source reads: nil if it reads nothing that has
// a name.
func (m *Match) Named(source Source) []NamedMatch {
	switch source {
	case FromHeader:
		return m.Headers
	case FromQuery:
		return m.Query
	case FromCookie:
		return m.Cookies
	}
	return nil
}

// MatchOp is how a StringMatch compares.
type MatchOp uint8

// The comparisons.
const (
	Exact MatchOp = iota
	Prefix
	Suffix
	Contains
	Regex
	Present
)

// StringMatch compares one string, which may be absent.
type StringMatch struct {
	Op      MatchOp
	Value   string
	Present bool // Present only: whether the value must be there
}

// NamedMatch compares the value of one header, query parameter or cookie.
type NamedMatch struct {
	Name  string // of a header in lower case
	Match StringMatch
}

// Source is where a key component gets its value.
type Source uint8

// The sources of key components.
const (
	FromHeader Source = iota
	FromCookie
	FromQuery
	FromClientIP
	FromPath
	FromMethod
	FromHost
	FromMetadata
	FromProperty
	FromConstant
	FromExpr
	FromBearer // the token of "Authorization: Bearer"
)

// Component is one part of a rule's key.
type Component struct {
	Source   Source
	Name     string   // header (lower case), cookie or query parameter
	Value    string   // FromConstant
	Path     []string // FromMetadata, FromProperty
	Expr     string   // FromExpr: CEL
	V4Prefix int      // FromClientIP: 32 unless configured
	V6Prefix int      // FromClientIP: 128 unless configured
	Segments int      // FromPath: how many leading segments; 0 is the whole path

	First      bool // of several different values the first counts; or else they are one value of their own
	Hash       bool // a digest stands for the value
	Keyed      bool // under the configuration's secret
	HasDefault bool
	Default    string
}

// Amount is a number of units. It is Default if it is constant. Otherwise it
// comes with the request, at most Max, from the one source that is set, and
// Default stands in for what is absent or not a number.
type Amount struct {
	Header   string // lower case
	Expr     string // CEL
	Metadata []string
	Property []string
	Default  int64
	Max      int64
}

// IsConstant reports whether the amount is Default for every request.
func (a *Amount) IsConstant() bool {
	return a.Header == "" && a.Expr == "" && a.Metadata == nil && a.Property == nil
}

// Limit is one limit with its names.
type Limit struct {
	// Limit has the largest Units and Burst that a request can bring, where these
	// come with the request.
	algo.Limit
	UnitsFrom *Amount // nil: constant
	BurstFrom *Amount // nil: constant, or the units if Burst is 0
	Cost      *Amount // nil: the rule's
	// Name is the limit's name in headers, problem details and metrics: its
	// own "name", else the rule's, with "-<window>" if the rule has several.
	Name string
	// Unit is what the limit counts, such as "tokens"; "": requests, or for slots the requests in flight.
	Unit string
	// Window is the window in its canonical spelling, as in Redis keys: "1m30s",
	// or "month:Europe/Berlin:31".
	Window string
	// Calendar is the calendar window of a fixed_window, or nil. WindowMicros is
	// then the longest that such a window can be, apart from changes of the clock.
	Calendar *Calendar
	Lease    *Lease // nil: every request asks Redis
	// Per are the components whose values, within the rule's identity, the limit counts for
	// each; nil: it counts the identity.
	Per []Component
	// Classes say which share of the capacity is there for a request; nil: all of it.
	Classes *Classes
}

// Classes is a limit's "ceiling".
type Classes struct {
	Source Component // its own default is in Component
	Values []Class   // in the configuration's order
	// Default is the class of requests whose source names none.
	Default string
}

// Class is a class of requests, and the percent of a capacity that are there for it.
type Class struct {
	Value   string
	Percent int64
}

// Lowest is the percent of the lowest class; algo.MaxCeiling where there are none.
func (c *Classes) Lowest() int64 {
	lowest := int64(algo.MaxCeiling)
	for i := range c.Values {
		lowest = min(lowest, c.Values[i].Percent)
	}
	return lowest
}

// Of is the percent of a class; 0 for none.
func (c *Classes) Of(value string) int64 {
	for i := range c.Values {
		if c.Values[i].Value == value {
			return c.Values[i].Percent
		}
	}
	return 0
}

// Calendar is a window that begins at a local midnight.
type Calendar struct {
	Period Period
	Zone   string // IANA name
	// Month and Day are when a year or a month starts, from 1. Shorter months
	// start at their last day.
	Month int
	Day   int
	// Weekday is when a week starts.
	Weekday time.Weekday
}

// Period is how long a calendar window is.
type Period uint8

// The periods.
const (
	Day Period = iota
	Week
	Month
	Year
)

// Lease lets a worker take Units in one call and spend them itself.
type Lease struct {
	Units     int64 // 1 to the limit's capacity, or 0: the script decides how many
	TTLMicros int64 // unspent units are given back after this time
}

// Tiers is "limits_by": which limits apply depends on Source's value.
type Tiers struct {
	Source     Component // its own default is in Component
	Values     []Tier    // in the configuration's order
	HasDefault bool
	Default    string
}

// Tier is one value of a Tiers. An unlimited tier has no Limits.
type Tier struct {
	Value     string
	Unlimited bool
	Limits    []Limit
}
