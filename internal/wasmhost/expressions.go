package wasmhost

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/sluiceproxy/sluice/internal/envoycel"
)

// The foreign functions of Envoy that compile and evaluate CEL
// (source/extensions/common/wasm/foreign.cc). Tokens are of the plugin context.

// expressions are those of one plugin context.
type expressions struct {
	programs map[uint32]*envoycel.Program // by token
	next     uint32
}

// Expressions is how many expressions the plugin context holds.
func (p *Plugin) Expressions() int { return len(p.expressions.programs) }

// CallForeign is proxy_call_foreign_function.
func (c Caller) CallForeign(name string, arguments []byte) ([]byte, Status) {
	e := &c.plugin.expressions
	switch name {
	case "declare_property":
		return nil, c.declareProperty(arguments)
	case "expr_create":
		return e.create(string(arguments))
	case "expr_evaluate", "expr_delete":
	default:
		return nil, StatusNotFound
	}
	if len(arguments) != 4 {
		return nil, StatusBadArgument
	}
	token := binary.LittleEndian.Uint32(arguments)
	if name == "expr_delete" {
		delete(e.programs, token)
		return nil, StatusOK
	}
	return c.evaluate(e.programs[token])
}

func (e *expressions) create(text string) ([]byte, Status) {
	program, err := envoycel.Compile(text)
	if err != nil {
		return nil, StatusBadArgument
	}
	if e.programs == nil {
		e.programs = map[uint32]*envoycel.Program{}
	}
	token := e.next
	e.next++
	e.programs[token] = program
	return binary.LittleEndian.AppendUint32(nil, token), StatusOK
}

func (c Caller) evaluate(program *envoycel.Program) ([]byte, Status) {
	if program == nil {
		return nil, StatusNotFound
	}
	result, err := program.Evaluate(Caller{c.h.current, c.h}.attributes())
	switch {
	case errors.Is(err, envoycel.ErrNull):
		return nil, StatusSerializationFailure
	case err != nil:
		return nil, StatusInternalFailure
	}
	return result, StatusOK
}

// attributes are the values that expressions see: those of headers, then the Properties, as text,
// then the Attributes. Envoy evaluates for the context whose callback runs, whatever
// proxy_set_effective_context has said: in a callback of a plugin there is no request.
func (c Caller) attributes() map[string]any {
	all := map[string]any{}
	s := c.stream
	if s == nil {
		return all
	}
	c.h.options.Properties.addTo(all)
	envoycel.Merge(all, c.h.options.Attributes)
	envoycel.Merge(all, envoycel.Request(s.request.headers))
	s.Properties.addTo(all)
	envoycel.Merge(all, s.Attributes)
	return all
}

// addTo adds properties to attributes.
func (p Properties) addTo(attributes map[string]any) {
	for path, value := range p {
		separator := "."
		if strings.Contains(path, "\x00") {
			separator = "\x00"
		}
		envoycel.Merge(attributes, envoycel.Nested(strings.Split(path, separator), string(value)))
	}
}
