//go:build !withoutmetrics

package main

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/plugin/metric"
)

// newBatch makes the batch of one configuration.
func newBatch(ids *metricIDs) *metric.Batch { return metric.New(ids, rand.Uint64()) }
