package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// sharedData is the memory that the workers of one Envoy share.
type sharedData struct{ host host }

// Bound: tries to change a record that workers share. Beyond it, the change is left out. Protects
// the worker from standing still.
const maxSharedTries = 10

// Get implements local.SharedData.
func (d sharedData) Get(key string) (value []byte, cas uint32, err error) {
	value, cas, status := d.host.getSharedData(key)
	return value, cas, sharedDataError(status)
}

// Set implements local.SharedData.
func (d sharedData) Set(key string, value []byte, cas uint32) error {
	return sharedDataError(d.host.setSharedData(key, value, cas))
}

var errSharedData = errors.New("the shared data cannot be used")

func sharedDataError(status uint32) error {
	switch status {
	case statusOK:
		return nil
	case statusNotFound:
		return local.ErrNotFound
	case statusCASMismatch:
		return local.ErrCASMismatch
	}
	return errSharedData
}

// Bound: different lines that a VM says once. Beyond it, further ones are not logged. Protects
// memory and the log.
const maxNotices = 1000

// saidPrefix begins the keys of shared data that tell workers what another has said.
const saidPrefix = "said:"

// notices has the lines that an Envoy logs once, over all its workers and configurations.
type notices struct {
	host host
	said map[string]bool
}

// sayOnce logs a line that this Envoy has not logged before. Workers that come to it at the
// same moment may each log it; at load they do not, as Envoy's main thread loads first.
func (n *notices) sayOnce(level logLevel, text string) {
	if n.said[text] || len(n.said) == maxNotices {
		return
	}
	n.said[text] = true
	shared := sharedData{n.host}
	if _, _, err := shared.Get(saidPrefix + text); err == nil {
		return
	}
	_ = shared.Set(saidPrefix+text, []byte{1}, 0) // if it fails, another worker logs the line again
	n.host.logLine(level, text)
}

// missingText warns that no request had an attribute which a rule needs: most likely the filters are in an
// order that cannot work.
func missingText(a *rule.Attribute) string {
	kind, path := "property", a.Path
	if metadata := []string{"metadata", "filter_metadata"}; len(path) > 2 && slices.Equal(path[:2], metadata) {
		kind, path = "metadata", path[2:]
	}
	return "sluice: rule " + strconv.Quote(a.Rule.Name) + " does not apply without the " + kind + " " +
		config.PathText(path) +
		", which no request has had so far (does the filter that sets it stand before Sluice?)"
}
