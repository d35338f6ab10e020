package main

import (
	"errors"

	"github.com/sluiceproxy/sluice/plugin/local"
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
