//go:build tinygo

package main

import "unsafe"

// random holds numbers that Envoy made and that were not handed out yet. One host call fills it.
var random struct {
	numbers [64]uint32
	left    int
}

// arc4random takes the place of libc's function of that name, by which TinyGo's runtime gets its
// random numbers. libc's has a cipher of its own and, for a message that no host ever makes it
// write, the whole of printf: 12 KB of code that Envoy would compile in each proxy.
//
//go:linkname arc4random arc4random
func arc4random() uint32 {
	if random.left == 0 {
		// It fails only for a buffer that is not within memory.
		wasiRandomGet(unsafe.Pointer(&random.numbers), uint32(unsafe.Sizeof(random.numbers)))
		random.left = len(random.numbers)
	}
	random.left--
	n := random.numbers[random.left]
	random.numbers[random.left] = 0
	return n
}

//go:wasmimport wasi_snapshot_preview1 random_get
func wasiRandomGet(buffer unsafe.Pointer, size uint32) (errno uint32)
