//go:build tinygo

package main

import "unsafe"

// limitAt is where the page writes a limit's fields.
//
//go:wasmexport limitAt
func limitAt() unsafe.Pointer { return unsafe.Pointer(&limit) }

// arrivalsAt is where the page writes times and costs.
//
//go:wasmexport arrivalsAt
func arrivalsAt() unsafe.Pointer { return unsafe.Pointer(&arrivals) }

// decidedAt is where the page reads the results.
//
//go:wasmexport decidedAt
func decidedAt() unsafe.Pointer { return unsafe.Pointer(&decided) }

// exportedDecide is decide.
//
//go:wasmexport decide
func exportedDecide(n int32) bool { return decide(n) }

// poolAt is where the page writes a pool's fields.
//
//go:wasmexport poolAt
func poolAt() unsafe.Pointer { return unsafe.Pointer(&pool) }

// ceilingsAt is where the page writes the ceiling of each sender's class.
//
//go:wasmexport ceilingsAt
func ceilingsAt() unsafe.Pointer { return unsafe.Pointer(&ceilings) }

// exportedShare is share.
//
//go:wasmexport share
func exportedShare(n int32) bool { return share(n) }
