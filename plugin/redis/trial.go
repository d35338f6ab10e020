package redis

import (
	"bytes"
	"strconv"

	"github.com/sluiceproxy/sluice/redisresp"
)

// trial is the attempt to use Redis that a worker makes by itself, with its first
// tick, so that what is wrong shows before the first request.
type trial struct {
	state trialState
	// What INFO says, where it is allowed and known.
	product, version, role string
}

type trialState uint8

const (
	untried trialState = iota
	trying
	tried
)

// try asks what answers, and does what a check needs. ACLs and redis_proxy may
// refuse INFO; sections come one by one, as only Redis 7 takes several at once
// (https://redis.io/docs/latest/commands/info/).
func (c *Conn) try(nowMicros int64) {
	if !c.options.Try || c.trial.state != untried {
		return
	}
	if c.breaker.state != Closed { // requests have found out, and the log says it
		c.trial.state = tried
		return
	}
	c.trial.state = trying
	if !c.stream.open && !c.connect(nowMicros) {
		c.trialFailed(Unreachable)
		return
	}
	for _, info := range []struct {
		section string
		kind    kind
	}{{"server", serverEntry}, {"replication", roleEntry}} {
		c.out = redisresp.AppendArray(c.out, 2)
		c.out = redisresp.AppendBulkString(c.out, "INFO")
		c.out = redisresp.AppendBulkString(c.out, info.section)
		c.pushBare(info.kind, nowMicros)
	}
	c.out = appendProbe(c.out, c.options.KeyPrefix, []byte("sluice"))
	c.pushBare(trialEntry, nowMicros)
}

// products are the fields of INFO that tell what a server is, what is most
// particular first: others say which Redis they are like, too.
var products = []struct{ field, name string }{
	{"dragonfly_version", "Dragonfly"},
	{"valkey_version", "Valkey"},
	{"redis_version", "Redis"},
}

// answerServer reads INFO server.
func (c *Conn) answerServer(r redisresp.Reply) {
	for _, p := range products {
		if version := infoField(r, p.field); version != "" {
			c.trial.product, c.trial.version = p.name, version
			return
		}
	}
}

// answerRole reads INFO replication.
func (c *Conn) answerRole(r redisresp.Reply) {
	switch role := infoField(r, "role"); role {
	case "":
	case "master":
		c.trial.role = "primary"
	case "slave":
		c.trial.role = "replica"
	default:
		c.trial.role = role
	}
}

// maxInfoField bounds how much of a field reaches the log.
const maxInfoField = 40

// infoField is a field of a reply to INFO; "" if there is none, or it is not plain
// text.
func infoField(r redisresp.Reply, name string) string {
	if r.Kind != redisresp.Bulk {
		return ""
	}
	for line := range bytes.Lines(r.Bytes) {
		key, value, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if !found || string(key) != name || len(value) > maxInfoField {
			continue
		}
		for _, b := range value {
			if b <= ' ' || b > '~' {
				return ""
			}
		}
		return string(value)
	}
	return ""
}

// answerTrial ends the trial: Redis can be used, or says why not.
func (c *Conn) answerTrial(r redisresp.Reply, nowMicros int64) {
	switch r.Kind {
	case redisresp.SimpleString:
		c.trialSucceeded()
	case redisresp.Error:
		c.complain("", r.Bytes)
		c.trialFailed(ErrorReply)
		c.replaceIfUseless(r, nowMicros)
	default:
		c.trialFailed(Malformed)
		c.hangUp(ended{cause: Malformed, counted: true}, nowMicros)
	}
}

func (c *Conn) trialSucceeded() {
	t := &c.trial
	t.state = tried
	line := c.name() + " answers"
	if t.version != "" {
		line += ": " + t.product + " " + t.version
		if t.role != "" {
			line += ", " + t.role
		}
	}
	c.host.Tried(true, line)
}

func (c *Conn) trialFailed(cause Cause) {
	if c.trial.state == trying {
		c.trial.state = tried
		_, text := c.why(cause)
		if cause == Timeout && !c.stream.heard {
			text += "; or the cluster lacks the bridge filter"
		}
		c.host.Tried(false, c.name()+" cannot be used: "+cause.String()+": "+text+"; the failure mode applies")
	}
}

// warnPauseMicros is how far apart the log's lines about failures are.
const warnPauseMicros = 60_000_000

// requestFailed counts a request that Redis does not decide. The log has the
// first of them, and one a minute, while the breaker's own lines do not say it.
func (c *Conn) requestFailed(cause Cause, nowMicros int64) {
	c.observer.RequestFailed(cause)
	if c.breaker.state != Closed || c.warned && nowMicros-c.warnedMicros < warnPauseMicros {
		return
	}
	c.warned, c.warnedMicros = true, nowMicros
	_, text := c.why(cause)
	c.host.Warn(c.name() + " did not decide a request: " + cause.String() + ": " + text +
		"; the failure mode applied (the next such line in a minute at the earliest)")
}

// name is the cluster in the log.
func (c *Conn) name() string { return "redis " + strconv.Quote(c.options.Cluster) }
