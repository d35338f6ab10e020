// Package scenario plays tests that are text: a configuration, requests, and what a client gets.
// The files are in testdata, one for each family. A driver plays them in its world: package plugin
// as Go and as the built wasm, on virtual time, and e2e on a real Envoy, where all
// scenarios share one process and one Redis. Each world plays them with Redis and without.
//
//	# Of two requests an hour the third is rejected.
//	config
//	{"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
//		{"algorithm": "gcra", "limit": 2, "window": "1h"}]}]}
//	----
//
//	request
//	GET / x-user:ann
//	GET / x-user:ann
//	GET / x-user:ann
//	GET / x-user:"bob or cy"
//	----
//	200 allowed limit=2 remaining=1 reset=1800
//	200 allowed limit=2 remaining=0 reset=3600
//	429 limited:r limit=2 remaining=0 reset=3600 retry-after=1800
//	200 allowed limit=2 remaining=1 reset=1800
//
// A block is a command, its input, "----", and the output up to a blank line
// (github.com/cockroachdb/datadriven). The commands are:
//
//   - config begins a scenario. No other scenario has a rule of the same name. Every world plays it
//     twice: "redis" is added to the configuration, with "failure" "deny" unless it says otherwise, or
//     it is not. store=redis or store=local plays it once. virtual keeps it off Envoy: its answers
//     depend on the time of day, or time passes in it. no-seconds leaves "reset", "retry-after" and
//     "t" out of its outputs. with=(...) names what is around the limiter: [Surroundings]. In place of
//     JSON there may be "recipe HEADING" of docs/cookbook.md, or "recipe PAGE#HEADING" of another page
//     of docs, with lines "OLD -> NEW" that change it.
//   - request sends requests one after the other, "METHOD PATH name:value ...", where a value with
//     blanks stands in quotes. The answer is the status, what the access log says, the header
//     fields that Sluice sets, by short names, and any others as they are. show=(body,upstream) adds
//     the body of Sluice's own answers and the request that the upstream has got; show=(rejected,sent),
//     virtual only, the filter state about the limit, and how many messages Redis has got. The header
//     upstream:"503 a:b" is taken away: it is what the upstream answers to this one request.
//     Other lines are "time 1m30s", which lets that pass, on Envoy a second at a time; "400x GET /", a
//     request that comes so often at once, and how often it had which status and outcome: on Envoy over
//     many connections and, with Redis, over two Envoys; "hold GET /", whose answer the upstream keeps
//     back; and "release", with which the first of those held gets it. In a virtual world a value "a%3" of
//     requests at once is a0, a1, a2 and a0 again.
//   - upstream has the upstream answer "STATUS name:value ..." from then on, in place of 200.
//   - redis runs commands, one a line, and shows their replies. Keys begin with "rl:". Worlds in
//     memory know KEYS, SET and DEL.
//   - fault is "redis down", "redis answers every 20ms", which is all that it has by then, or "redis up"; virtual only.
//   - log shows the lines that the plugin has logged since the scenario began; virtual only.
//   - metrics shows the metrics that are not 0 and begin with one of these words, without "sluice." in
//     front, a second later; virtual only.
//
// What no request waits for, as a refund, Envoy does later: a request or redis block with the argument
// "eventually" is repeated there until its output is the expected one, so it must change nothing.
//
// Seconds count down while a real Envoy plays: there "reset", "retry-after" and "t" may be less than
// is written by what the scenario has taken.
//
// To renew the outputs after a change, and then read the difference:
//
//	go test ./plugin -run TestScenarios -rewrite
package scenario
