package config

import "github.com/sluiceproxy/sluice/algo"

// readSource reads where an amount comes from: one of sources.
func (a *Amount) readSource(o object, from ...Source) {
	name, v, ok := o.oneOf(sources.textsOf(from)...)
	if !ok {
		return
	}
	switch source, _ := sources.meaning(name); source {
	case FromHeader:
		a.Header, _ = v.readHeaderName()
	case FromExpr:
		a.Expr = readExpression(v, NumberExpression)
	case FromMetadata:
		a.Metadata = readAttributePath(v)
	case FromProperty:
		a.Property = readAttributePath(v)
	}
}

// checkDefault reports a default that the amount itself can never be.
func (a *Amount) checkDefault(o object) {
	if a.Default > a.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, a.Default, a.Max)
	}
}

// readUnits reads a "limit" or a "burst": a whole number, or an object that says
// where the number of each request comes from. Then units are the largest.
func readUnits(v value, lowest int64) (units int64, from *Amount, ok bool) {
	if !v.json.IsObject() {
		units, ok = v.readWhole(lowest, algo.MaxUnits)
		return units, nil, ok
	}
	o, ok := v.readObject("expr", "header", "metadata", "default", "max")
	if !ok {
		return 0, nil, false
	}
	from = &Amount{}
	from.readSource(o, FromExpr, FromHeader, FromMetadata)
	if v, ok := o.required("default", "the number for requests that bring none"); ok {
		from.Default, _ = v.readWhole(0, algo.MaxUnits)
	}
	if v, ok := o.required("max", "the largest number that a request may bring"); ok {
		if from.Max, ok = v.readWhole(1, algo.MaxUnits); ok {
			from.checkDefault(o)
		}
	}
	return from.Max, from, from.Max > 0
}
