package main

import (
	"errors"
	"slices"
	"testing"
)

// A module that imports one function and defines "sbrk", with a memory.grow, and
// "add", which has the byte of memory.grow in a constant only.
var exampleWasm = slices.Concat(
	[]byte("\x00asm\x01\x00\x00\x00"),
	wasmSection(1, "\x01\x60\x01\x7f\x01\x7f"),                           // type: i32 to i32
	wasmSection(2, "\x01\x03env\x03log\x00\x00"),                         // import
	wasmSection(3, "\x02\x00\x00"),                                       // functions
	wasmSection(5, "\x01\x00\x03"),                                       // memory
	wasmSection(10, "\x02"+wasmBody(grows)+wasmBody(noGrow)),             // code
	wasmSection(0, "\x04name\x01\x0d\x03\x00\x01l\x01\x04sbrk\x02\x01a"), // names
)

const (
	// Every kind of instruction that needs care, and at last memory.grow.
	grows = "\x01\x02\x7f" + // two locals
		"\x02\x40\x0e\x01\x00\x00\x0b" + // block, br_table, end
		"\x20\x00\x28\x02\x90\x01\x1a" + // local.get, i32.load, drop
		"\x42\xc0\xbb\x78\x1a" + // i64.const, drop
		"\x43\x40\x40\x40\x40\x1a\x44\x40\x40\x40\x40\x40\x40\x40\x40\x1a" + // f32.const, f64.const
		"\xfc\x0b\x00\xfc\x0a\x00\x00" + // memory.fill, memory.copy
		"\x20\x00\x40\x00\x0b"
	noGrow = "\x00\x41\xc0\x00\x0b"
)

func wasmSection(id byte, content string) []byte {
	return append([]byte{id, byte(len(content))}, content...)
}

func wasmBody(code string) string { return string(rune(len(code))) + code }

func TestReadWasm(t *testing.T) {
	t.Parallel()
	got, err := readWasm(exampleWasm)
	if err != nil {
		t.Fatal(err)
	}
	if want := []wasmFunction{{Name: "sbrk", Grows: true}, {Name: "a"}}; !slices.Equal(got.Functions, want) {
		t.Errorf("functions %+v, want %+v", got.Functions, want)
	}
	if want := len("\x02" + wasmBody(grows) + wasmBody(noGrow)); got.CodeBytes != want {
		t.Errorf("%d bytes of code, want %d", got.CodeBytes, want)
	}
	if got.MemoryPages != 3 {
		t.Errorf("%d pages of memory, want 3", got.MemoryPages)
	}
}

// A file that is cut short is an error, or has fewer sections; it does not panic.
func TestWasmCutShort(t *testing.T) {
	t.Parallel()
	for n := range exampleWasm {
		if _, err := readWasm(exampleWasm[:n]); err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func TestMalformedWasm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, module string }{
		{name: "empty"},
		{name: "no module", module: "PK\x03\x04\x00\x00\x00\x00"},
		{
			name:   "unknown opcode",
			module: string(slices.Concat(exampleWasm[:8], wasmSection(10, "\x01"+wasmBody("\x00\xff\x0b")))),
		},
		{name: "unknown import", module: string(slices.Concat(exampleWasm[:8], wasmSection(2, "\x01\x00\x00\x09")))},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := readWasm([]byte(test.module)); !errors.Is(err, errMalformed) {
				t.Errorf("%v, want errMalformed", err)
			}
		})
	}
}
