package main

// These files look into the built plugin: which functions it has, which of them ask for memory, and
// what Envoy has to compile. The format:
// https://webassembly.github.io/spec/core/binary/index.html

import (
	"bytes"
	"errors"
	"fmt"
)

// wasmFunction is a function that a module defines.
type wasmFunction struct {
	Name  string // "" if the module does not name it
	Grows bool   // it has a memory.grow instruction
}

// wasmModule is a module, as far as these tests read it.
type wasmModule struct {
	Functions   []wasmFunction // in order
	CodeBytes   int            // length of the code section
	MemoryPages uint32         // of 64 KiB, at the start
}

// errMalformed is the error for a file that ends too soon or is not a module.
var errMalformed = errors.New("malformed module")

// The sections that matter here.
const (
	customSection = 0
	importSection = 2
	memorySection = 5
	codeSection   = 10
)

// readWasm reads a module.
func readWasm(module []byte) (wasmModule, error) {
	r := &wasmReader{rest: module}
	if !bytes.Equal(r.take(8), []byte("\x00asm\x01\x00\x00\x00")) {
		return wasmModule{}, fmt.Errorf("%w: no WebAssembly 1", errMalformed)
	}
	var m wasmModule
	imported, names := uint32(0), map[uint32]string{}
	for len(r.rest) > 0 && r.err == nil {
		id := r.byte()
		section := &wasmReader{rest: r.take(r.u32())}
		switch id {
		case importSection:
			imported = section.imports()
		case memorySection:
			m.MemoryPages = section.memory()
		case codeSection:
			m.CodeBytes = len(section.rest)
			m.Functions = section.bodies()
		case customSection:
			if string(section.take(section.u32())) == "name" {
				section.names(names)
			}
		}
		if section.err != nil {
			return wasmModule{}, fmt.Errorf("section %d: %w", id, section.err)
		}
	}
	for i := range m.Functions {
		m.Functions[i].Name = names[imported+uint32(i)]
	}
	return m, r.err
}

// imports reads the import section, and counts the functions in it: they come
// first in the numbering of functions.
func (r *wasmReader) imports() (functions uint32) {
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		r.take(r.u32()) // the module
		r.take(r.u32()) // the name in it
		switch kind := r.byte(); kind {
		case 0: // a function, with its type
			r.u32()
			functions++
		case 1: // a table, with its type and limits
			r.byte()
			r.limits()
		case 2: // a memory
			r.limits()
		case 3: // a global, with its type and whether it may change
			r.take(2)
		default:
			r.fail("import of kind %d", kind)
		}
	}
	return functions
}

func (r *wasmReader) limits() (least uint32) {
	bounded := r.byte()&1 != 0
	least = r.u32()
	if bounded {
		r.u32()
	}
	return least
}

// memory reads the memory section, which has at most one memory.
func (r *wasmReader) memory() (pages uint32) {
	if r.u32() > 0 {
		pages = r.limits()
	}
	return pages
}

// bodies reads the code section.
func (r *wasmReader) bodies() []wasmFunction {
	var functions []wasmFunction
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		body := &wasmReader{rest: r.take(r.u32())}
		for groups := body.u32(); groups > 0 && body.err == nil; groups-- {
			body.u32() // how many locals
			body.byte()
		}
		f := wasmFunction{}
		for len(body.rest) > 0 && body.err == nil {
			f.Grows = body.instruction() == memoryGrow || f.Grows
		}
		if r.err == nil && body.err != nil {
			r.err = fmt.Errorf("function %d: %w", len(functions), body.err)
		}
		functions = append(functions, f)
	}
	return functions
}

// functionNames is the part of the name section that is read here.
const functionNames = 1

// names reads the name section.
func (r *wasmReader) names(names map[uint32]string) {
	for len(r.rest) > 0 && r.err == nil {
		id := r.byte()
		part := &wasmReader{rest: r.take(r.u32())}
		if id != functionNames {
			continue
		}
		for n := part.u32(); n > 0 && part.err == nil; n-- {
			index := part.u32()
			names[index] = string(part.take(part.u32()))
		}
		r.err = errors.Join(r.err, part.err)
	}
}
