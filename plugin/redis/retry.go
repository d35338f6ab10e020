package redis

// Retry is why a check that Redis answered was sent once more.
type Retry uint8

// The reasons.
const (
	// UnknownScript: Redis did not have the script: it restarted, or forgot it.
	UnknownScript Retry = iota
	// NoTime: Redis does not let scripts call TIME.
	NoTime
	// OtherTime: the check was sized for another calendar window.
	OtherTime
	// OtherOverride: the check was made for another override.
	OtherOverride
	// Overtaken: the check was rejected while a refund for its identity was late.
	Overtaken

	// Retries is how many reasons there are.
	Retries
)

// retryOf is why a check is sent once more after an outcome.
var retryOf = [outcomes]Retry{accepted: Overtaken, unknown: UnknownScript, timeless: NoTime}
