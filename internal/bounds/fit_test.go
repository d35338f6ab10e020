package bounds

import (
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"testing"
)

// fits are relations that the code relies on.
var fits = []struct{ relation, why string }{
	// What one callback does.
	{
		"bridge.MaxMessageBytes / 31 <= decide.maxExits",
		"one message's replies, the shortest of which has 31 bytes, let no more requests go than a callback may",
	},
	{
		"decide.maxTaken <= decide.maxConclusions",
		"whoever a callback takes out of a crowd gets a verdict in the same callback",
	},
	{
		"decide.maxRepeats <= config.defaultMaxPending",
		"a crowd begins before the pipe is full",
	},
	{
		"decide.maxFirst <= decide.maxRepeats",
		"one share never has all of the pipe",
	},
	{
		"decide.maxRenewed <= slots.Portion",
		"a portion is at least one command",
	},
	{
		"slots.pauseMicros >= redis.minTickMicros",
		"a portion can follow another",
	},
	{
		"slots.pauseMicros <= algo.MinTTLMicros / 5 / slots.places",
		"the portions of a wheel's place are done before the next place is due",
	},

	// What waits while Redis is away.
	{
		"redis.maxRefunds >= 2 * lease.maxLeases",
		"the units of all leases, two batches of each, fit into the outbox",
	},
	{
		"redis.maxReleases >= config.defaultMaxPending",
		"the slots of all requests that wait for Redis fit into the outbox",
	},
	{
		"redis.maxTogether <= redis.releasePortion",
		"one callback sends at least one full call",
	},
	{
		"redis.refusedMicros < redis.settleMicros",
		"a settlement that was refused is sent again before it is given up",
	},
	{
		"config.defaultTimeoutMicros * redis.stalledTimeouts < redis.settleMicros",
		"a settlement outlives a connection that stalls",
	},

	// Time.
	{
		"redis.minTickMicros <= redis.maxTickMicros",
		"there is a tick",
	},
	{
		"redis.maxTickMicros < config.defaultTimeoutMicros",
		"a timeout ends in time",
	},
	{
		"config.minLeaseMicros >= 2 * redis.minTickMicros",
		"ticks give a lease's units back in time",
	},
	{
		"redis.candidateMicros < redis.rotateAgainMicros",
		"a rotation ends before the next one begins",
	},
	{
		"redis.recentMicros < redis.ServerStatsMicros",
		"Redis is asked how it is once for each busy spell",
	},
	{
		"redis.ServerStatsMicros < main.warnAgainMicros",
		"each warning is of a reading of its own",
	},
	{
		"metric.FlushMicros < redis.restMicros",
		"what was counted reaches Envoy before a connection rests",
	},
	{
		"decide.closingTickMicros < decide.maxClosingMicros",
		"a configuration that ends looks whether it can",
	},
	{
		"redis.silentMicros < decide.maxClosingMicros + redis.settleMicros",
		"what is given back at the end has a chance against a slow Redis",
	},

	// What is remembered.
	{
		"deny.SharedTTLMicros >= config.defaultTimeoutMicros",
		"a charge that another rule's rejection gives back is gone by then",
	},
	{
		"deny.SharedTTLMicros < deny.TermsTTLMicros",
		"several rules are the stricter case",
	},
	{
		"deny.TermsTTLMicros < 1000000",
		"what an operator sets is in force within a second",
	},
	{
		"deny.TermsTTLMicros < deny.RejectionTTLMicros",
		"terms are the stricter case",
	},
	{
		"decide.maxKnown * algo.MaxOverrideBytes >= decide.maxKnownBytes",
		"the bytes of overrides are a bound of their own",
	},
	{
		"decide.maxGroupMicros * decide.maxStrikeGroups <= 1000000",
		"the groups of the shortest window that matters fit into it",
	},
	{
		"decide.maxToldIdentities <= decide.maxKnown",
		"whoever is told of is remembered",
	},
	{
		"decide.minStrikeIdentities <= config.defaultDenyCacheSize",
		"strikes take no more memory than rejections",
	},
	{
		"config.defaultDenyCacheSize <= config.maxDenyCacheSize",
		"the default is valid",
	},
	{
		"main.maxRanks <= config.maxOffenders",
		"each rank can have an offender",
	},

	// Exact arithmetic.
	{
		"algo.MaxCost <= algo.MaxUnits",
		"a limit can admit the largest cost",
	},
	{
		"2 * algo.MaxUnits < 1 << 32",
		"32 bits hold two capacities: what is charged, and what is owed",
	},
	{
		"algo.MaxStrikes < 1 << 32",
		"32 bits hold the strikes",
	},
	{
		"algo.MaxUnits * algo.MaxFactor < 1 << 63",
		"a limit times a factor is exact",
	},
	{
		"algo.MinWindowMicros << algo.maxShift >= 1024 * algo.MaxUnits",
		"the finest tick divides the shortest interval into 1,024",
	},
	{
		"2 * algo.MaxRestoreMicros <= algo.maxReplyMicros",
		"doubles hold the sum of two waits",
	},
	{
		"2 * algo.maxProduct <= algo.maxReplyMicros",
		"doubles hold twice a weighted limit",
	},
	{
		"algo.MaxWindowMicros < algo.MaxRestoreMicros",
		"every window can pass",
	},
	{
		"algo.maxReplyMicros == rule.maxDoubleWhole",
		"both are what a double counts exactly",
	},
	{
		"algo.MaxWindowMicros < config.maxDurationMicros",
		"a duration beyond every bound is refused",
	},
	{
		"algo.MaxUnits < config.maxJSONWhole",
		"a number beyond every bound is refused",
	},

	// Room.
	{
		"redis.maxReplyBytes >= 22 * (1 + algo.MaxLimits * 6)",
		"the longest reply of a script, of six integers a limit, fits",
	},
	{
		"redisresp.defaultElements >= 1 + algo.MaxLimits * 6",
		"so do its elements",
	},
	{
		"redisresp.defaultDepth <= redisresp.MaxDepth",
		"the default is valid",
	},
	{
		"redisresp.defaultLine <= redisresp.defaultBytes",
		"a line is part of a reply",
	},
	{
		"redis.maxErrorBytes < redis.maxReplyBytes",
		"the log has less than a reply",
	},
	{
		"8 * local.maxRuns <= local.DefaultPageBytes",
		"the longest log fits into a slot",
	},
	{
		"local.maxRuns <= algo.logEntries",
		"the embedded store keeps no finer log than Redis",
	},
	{
		"2 * local.maxOthersBytes <= local.DefaultPageBytes",
		"an identity's other tiers leave room for its own",
	},
	{
		"rule.maxIdentityBytes <= rule.shortIdentityBytes",
		"an identity that is not hashed is always looked at",
	},
	{
		"2 * rule.shortUnits <= rule.requestUnits",
		"what is always there is little compared with a request's units",
	},
	{
		"regexsize.maxBranches <= regexsize.maxInstructions",
		"branches are instructions",
	},
	{
		"regexsize.MaxBytes <= config.maxExpressionBytes",
		"an expression can hold a regular expression",
	},
	{
		"config.maxComparedBytes <= config.maxShownBytes",
		"a name that is compared is shown whole",
	},
}

var qualified = regexp.MustCompile(`\b([a-z]\w*)\.(\w+)`)

// Bounds that depend on each other fit (TigerBeetle asserts such relations of its constants:
// https://github.com/tigerbeetle/tigerbeetle/blob/main/src/constants.zig).
func TestLimitsFit(t *testing.T) {
	t.Parallel()
	pkg := types.NewPackage("fit", "fit")
	for _, n := range read(t) {
		of := types.Typ[types.UntypedFloat]
		value := n.Value
		if whole := constant.ToInt(value); whole.Kind() == constant.Int {
			of, value = types.Typ[types.UntypedInt], whole
		}
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, n.Package+"_"+n.Name, of, value))
	}
	for _, fit := range fits {
		found, err := types.Eval(token.NewFileSet(), pkg, token.NoPos, qualified.ReplaceAllString(fit.relation, "${1}_$2"))
		if err != nil {
			t.Errorf("%s: %v", fit.relation, err)
		} else if !constant.BoolVal(found.Value) {
			t.Errorf("%s does not hold: %s", fit.relation, fit.why)
		}
	}
}
