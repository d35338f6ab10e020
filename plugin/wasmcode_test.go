package main

import "fmt"

// wasmReader reads from the front of rest. After an error it returns zeros.
type wasmReader struct {
	rest []byte
	err  error
}

func (r *wasmReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
	}
	r.rest = nil
}

// take is the next n bytes.
func (r *wasmReader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.fail("it ends too soon")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *wasmReader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// u32 reads a number in LEB128.
func (r *wasmReader) u32() (v uint32) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// leb passes over a number in LEB128, signed or not, of any width.
func (r *wasmReader) leb() {
	for r.byte() >= 0x80 {
	}
}

func (r *wasmReader) lebs(n uint32) {
	for ; n > 0 && r.err == nil; n-- {
		r.leb()
	}
}

// Opcodes: https://webassembly.github.io/spec/core/binary/instructions.html
const (
	opBlock, opIf           = 0x02, 0x04
	opBranch, opBranchIf    = 0x0c, 0x0d
	opBranchTable           = 0x0e
	opCall, opCallIndirect  = 0x10, 0x11
	opSelectTyped           = 0x1c
	opLocalGet, opTableSet  = 0x20, 0x26
	opLoad, opStoreEnd      = 0x28, 0x3e
	memorySize, memoryGrow  = 0x3f, 0x40
	opI32Const, opI64Const  = 0x41, 0x42
	opF32Const, opF64Const  = 0x43, 0x44
	opNumeric, opNumericEnd = 0x45, 0xc4
	opRefNull, opRefFunc    = 0xd0, 0xd2
	opRefIsNull             = 0xd1
	opPrefixed              = 0xfc
	opUnreachable, opNop    = 0x00, 0x01
	opElse, opEnd, opReturn = 0x05, 0x0b, 0x0f
	opDrop, opSelect        = 0x1a, 0x1b
)

// instruction reads one instruction with what belongs to it.
func (r *wasmReader) instruction() (opcode byte) {
	opcode = r.byte()
	switch {
	case opcode == opUnreachable, opcode == opNop, opcode == opElse, opcode == opEnd, opcode == opReturn,
		opcode == opDrop, opcode == opSelect, opcode == opRefIsNull, opNumeric <= opcode && opcode <= opNumericEnd:
	case opBlock <= opcode && opcode <= opIf, opcode == opBranch, opcode == opBranchIf, opcode == opCall,
		opLocalGet <= opcode && opcode <= opTableSet, memorySize <= opcode && opcode <= opI64Const,
		opcode == opRefNull, opcode == opRefFunc:
		r.leb()
	case opcode == opCallIndirect, opLoad <= opcode && opcode <= opStoreEnd:
		r.lebs(2)
	case opcode == opBranchTable:
		r.lebs(r.u32() + 1)
	case opcode == opSelectTyped:
		r.lebs(r.u32())
	case opcode == opF32Const:
		r.take(4)
	case opcode == opF64Const:
		r.take(8)
	case opcode == opPrefixed:
		r.prefixed()
	default:
		r.fail("opcode %#x", opcode)
	}
	return opcode
}

// prefixed is how many numbers follow the second number of an instruction that
// begins with opPrefixed: conversions, then those of bulk memory and tables.
var prefixed = [...]uint32{0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 2, 1, 2, 1, 1, 1}

func (r *wasmReader) prefixed() {
	second := r.u32()
	if second >= uint32(len(prefixed)) {
		r.fail("opcode %#x %d", opPrefixed, second)
		return
	}
	r.lebs(prefixed[second])
}
