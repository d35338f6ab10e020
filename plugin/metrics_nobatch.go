//go:build withoutmetrics

package main

// withMetrics is false in a build that shows what metrics cost.
const withMetrics = false
