package wasmhost

import (
	"context"
	"reflect"
	"slices"

	"github.com/tetratelabs/wazero/api"
)

// A hostCall is one function of module env. It reads its arguments from the guest's
// memory, has a Caller do the call, and writes the results there.
type hostCall struct {
	name       string
	call       reflect.Value // func(Caller, arguments...) (results..., Status)
	arguments  []reflect.Type
	parameters []api.ValueType
}

// newHostCall finds the parameters of a function: two for a text or bytes (where, and how
// much), one for a number, and as many for each result, which say where it goes.
func newHostCall(name string, call any) *hostCall {
	h := &hostCall{name: name, call: reflect.ValueOf(call)}
	t := h.call.Type()
	for i := 1; i < t.NumIn(); i++ {
		argument := t.In(i)
		h.arguments = append(h.arguments, argument)
		switch argument.Kind() {
		case reflect.Int64, reflect.Uint64:
			h.parameters = append(h.parameters, api.ValueTypeI64)
		default:
			h.take(argument)
		}
	}
	for i := range t.NumOut() - 1 {
		h.take(t.Out(i))
	}
	return h
}

func (h *hostCall) take(t reflect.Type) {
	h.parameters = append(h.parameters, api.ValueTypeI32)
	if isBytes(t) {
		h.parameters = append(h.parameters, api.ValueTypeI32)
	}
}

func isBytes(t reflect.Type) bool { return t.Kind() == reflect.String || t.Kind() == reflect.Slice }

// exportCalls makes the functions that a guest may import.
func (v *vm) exportCalls() error {
	b := v.runtime.NewHostModuleBuilder("env")
	for name, call := range hostCalls {
		h := newHostCall(name, call)
		run := func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = uint64(v.run(h, stack)) }
		b.NewFunctionBuilder().
			WithGoModuleFunction(api.GoModuleFunc(run), h.parameters, []api.ValueType{api.ValueTypeI32}).
			Export(name)
	}
	_, err := b.Instantiate(v.ctx)
	return err
}

// run makes a host call, unless it may not be made now.
func (v *vm) run(h *hostCall, stack []uint64) Status {
	if v.quiet && h.name != "proxy_log" {
		v.h.fail("%s: not allowed while the guest is initialized or allocates memory", h.name)
		return StatusInternalFailure
	}
	v.h.admit(h.name)
	in := []reflect.Value{reflect.ValueOf(v.h.caller())}
	for _, t := range h.arguments {
		argument, ok := v.read(t, stack)
		if !ok {
			return StatusInvalidMemoryAccess
		}
		in, stack = append(in, argument), behind(stack, t)
	}
	out := h.call.Call(in)
	results, status := out[:len(out)-1], out[len(out)-1].Interface().(Status)
	if status != StatusOK {
		return status
	}
	for _, result := range results {
		if !v.write(result, stack) {
			return StatusInvalidMemoryAccess
		}
		stack = behind(stack, result.Type())
	}
	return status
}

func behind(stack []uint64, t reflect.Type) []uint64 {
	if isBytes(t) {
		return stack[2:]
	}
	return stack[1:]
}

// read reads an argument. Bytes have to be a copy: the guest's memory moves when it grows.
func (v *vm) read(t reflect.Type, stack []uint64) (argument reflect.Value, ok bool) {
	argument = reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Bool:
		argument.SetBool(uint32(stack[0]) != 0)
	case reflect.Int32:
		argument.SetInt(int64(int32(stack[0])))
	case reflect.Int64:
		argument.SetInt(int64(stack[0]))
	case reflect.Uint32:
		argument.SetUint(uint64(uint32(stack[0])))
	case reflect.Uint64:
		argument.SetUint(stack[0])
	default:
		b, ok := v.memory.Read(uint32(stack[0]), uint32(stack[1]))
		return reflect.ValueOf(slices.Clone(b)).Convert(t), ok
	}
	return argument, true
}

// write writes a result where the guest wants it: a number, or bytes that are copied into
// the guest before. Nothing is allocated for no bytes.
func (v *vm) write(result reflect.Value, stack []uint64) (ok bool) {
	var b []byte
	switch value := result.Interface().(type) {
	case []byte:
		b = value
	case string:
		b = []byte(value)
	case Pairs:
		if len(value) > 0 {
			b = value.marshal()
		}
	case uint64:
		return v.memory.WriteUint64Le(uint32(stack[0]), value)
	default:
		return v.memory.WriteUint32Le(uint32(stack[0]), uint32(result.Uint()))
	}
	pointer, ok := uint32(0), true
	if len(b) > 0 {
		pointer, ok = v.allocate(b)
	}
	return ok && v.memory.WriteUint32Le(uint32(stack[0]), pointer) &&
		v.memory.WriteUint32Le(uint32(stack[1]), uint32(len(b)))
}
