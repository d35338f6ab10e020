// Package calendar knows when the days, weeks, months and years of a time zone
// begin: the windows of calendar quotas.
//
// TinyGo has no time zones, and an Envoy's image may have none, so the zones come
// with the plugin: zones.bin, which "make zones" makes from the tzdata release that
// Release names (https://www.iana.org/time-zones). It has what each zone did from
// 1988 on, and the rule that it goes by now, which holds for the years to come.
//
// A window begins at a local midnight. Where the clocks leap over it, that is the
// first instant after; where it comes twice, the first. A day that a zone left out,
// as Samoa did when it crossed the date line, has no window.
package calendar
