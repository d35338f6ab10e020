//go:build !withoutmetrics

package main

import "github.com/sluiceproxy/sluice/plugin/metric"

// newBatch makes the batch of one configuration.
func newBatch(ids *metricIDs) *metric.Batch { return metric.New(ids, ids.host.Uint64()) }
