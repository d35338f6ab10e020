package redis

import "bytes"

// Some managed Redis do not let scripts call TIME. Amazon ElastiCache Serverless
// answers "ERR This Redis command is not allowed from script"
// (https://github.com/cristipufu/aspnetcore-redis-rate-limiting/issues/154), a
// Redis in which TIME was renamed "Unknown Redis command called from script".
// From the first such error on, scripts are sent that tell the time by a key's
// expiry (algo.Plan.ScriptWithoutTime). If it was another command that is missing,
// those fail in the same way.

// refusesCommand reports whether an error says that a script may not call a
// command at all, whoever asks.
func refusesCommand(text []byte) bool {
	text = unwrapScriptError(text)
	return bytes.Contains(text, []byte("ommand is not allowed from script")) ||
		bytes.Contains(text, []byte("nknown ")) && bytes.Contains(text, []byte("ommand called from"))
}

// clock is Redis' time, as far as it is known.
type clock struct {
	known       bool
	aheadMicros int64 // of the worker's steady clock
}

// hear takes the time of a reply.
func (k *clock) hear(redisMicros, nowMicros int64) {
	k.known, k.aheadMicros = true, redisMicros-nowMicros
}
