package config

import "github.com/sluiceproxy/sluice/algo"

// readOverrides reads a rule's "overrides".
func readOverrides(o object) bool {
	overrides := false
	o.readBooleanField("overrides", &overrides)
	if overrides && !o.r.hasRedis {
		o.mistake(`"overrides" are kept in Redis, which is not configured (want "redis" at the top level)`)
	}
	return overrides
}

// readPenalty reads a rule's "penalty". The mode is the rule's.
func readPenalty(o object, mode Mode) *Penalty {
	v, ok := o.field("penalty")
	if !ok {
		return nil
	}
	if mode != Enforce {
		o.mistake(`"penalty" is in a rule that rejects nobody (want the mode "enforce")`)
	}
	p := &Penalty{}
	o, ok = v.readObject("after", "within", "for")
	if !ok {
		return p
	}
	if v, ok := o.required("after", "how many rejections earn a block"); ok {
		p.After, _ = v.readWhole(1, algo.MaxStrikes)
	}
	if v, ok := o.required("within", `a duration such as "1m"`); ok {
		p.WithinMicros, _ = v.readDuration(algo.MinWindowMicros, algo.MaxWindowMicros)
	}
	if v, ok := o.required("for", `the durations of the first block, the second and so on, such as ["5m", "1h"]`); ok {
		p.ForMicros = readBlocks(v)
	}
	return p
}

func readBlocks(v value) []int64 {
	elements, _ := v.readNonEmptyList(`durations such as "5m"`)
	if len(elements) > algo.MaxBlocks {
		v.mistake("there are %d durations (want at most %d)", len(elements), algo.MaxBlocks)
	}
	blocks := make([]int64, 0, len(elements))
	for _, element := range elements {
		micros, _ := element.readDuration(algo.MinWindowMicros, algo.MaxWindowMicros)
		blocks = append(blocks, micros)
	}
	return blocks
}
