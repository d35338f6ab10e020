// Package e2e holds the black box tests: the built plugin in a real Envoy, with
// the shipped envoy.yaml, against a real Redis. They read design and
// documentation as a user would, and import nothing of the plugin.
//
// # Scenarios
//
// Most of the contract is written down as scenarios (contract_*_test.go): some rules,
// and what becomes of requests, one after the other. Many scenarios share one Envoy,
// as starting one takes a second; the name of each is the beginning of its paths and
// of its rules' names, so that none touches another. runScenarios plays them all
// twice: with Redis, and with the embedded store, which works the same.
//
//	scenario{
//		name:  "hourly",
//		rules: `{"name": "hourly", "match": {"path": {"prefix": "/hourly"}}, "limits": [...]}`,
//		steps: []step{
//			{want: want{Outcome: "allowed", Remaining: "0"}},
//			{want: want{Status: 429, Outcome: "limited:hourly", RetryAfter: "3600"}},
//		},
//	}
//
// What a want does not state is not compared; missing wants a header not to be there.
// A request's path follows "/hourly", its headers are written "name: value".
//
// Two kinds of scenarios have tables of their own, which say more with less: matching
// lists the requests to which a rule applies and those to which it does not, and
// keyed the requests that share an identity.
package e2e
