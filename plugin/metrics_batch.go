//go:build !withoutmetrics

package main

const withMetrics = true
