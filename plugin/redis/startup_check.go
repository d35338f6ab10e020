package redis

import (
	"bytes"
	"strings"

	"github.com/sluiceproxy/sluice/redisresp"
)

// startupCheck is the attempt to use Redis that a worker makes by itself, with its first tick after a
// request has come, so that mistakes show at once.
type startupCheck struct {
	state startupState
	// What INFO says, where it is allowed and known.
	product, version, role string
}

type startupState uint8

const (
	untried startupState = iota
	underWay
	tried
)

// try begins the startup check, with the first tick. If requests have found out already that Redis
// cannot be used, the log says so. It asks what answers, and does what a check needs. ACLs and
// redis_proxy may refuse INFO; sections come one by one, as only Redis 7 takes several at once
// (https://redis.io/docs/latest/commands/info/).
func (l *link) try(nowMicros int64) {
	t, p := &l.startup, &l.pipe
	switch {
	case !l.options.Try || t.state != untried:
		return
	case l.health.breaker.state != Closed:
		t.state = tried
		return
	}
	t.state = underWay
	if !l.stream.open && !l.connect(nowMicros) {
		t.fail(&l.health, Unreachable, l.stream.heard)
		return
	}
	p.add(askingServer, nowMicros, "INFO", "server")
	p.add(askingRole, nowMicros, "INFO", "replication")
	if l.options.Overrides {
		p.add(askingMemory, nowMicros, "INFO", "memory")
	}
	p.addProbe(startupProbing, l.options.KeyPrefix, nil, nowMicros)
}

// products are the fields of INFO that tell what a server is, what is most
// particular first: others say which Redis they are like, too.
var products = []struct{ field, name string }{
	{"dragonfly_version", "Dragonfly"},
	{"valkey_version", "Valkey"},
	{"redis_version", "Redis"},
}

// What follows for the startup check.
var (
	noteServer = &action{"note server", func(l *link, _ *command, _ end) {
		for _, p := range products {
			if version := infoField(l.reply, p.field); version != "" {
				l.startup.product, l.startup.version = p.name, version
				return
			}
		}
	}}
	noteRole = &action{"note role", func(l *link, _ *command, _ end) {
		l.startup.role = infoField(l.reply, "role")
		switch l.startup.role {
		case "master":
			l.startup.role = "primary"
		case "slave":
			l.startup.role = "replica"
		}
	}}
	// startOK: Redis can be used. It warns of a policy that evicts what has no TTL, as most overrides
	// (https://redis.io/docs/latest/develop/reference/eviction/).
	startOK = &action{"report it", func(l *link, _ *command, e end) {
		t, h, policy := &l.startup, &l.health, l.stats.policy
		t.state = tried
		line := h.name() + " answers"
		if t.version != "" {
			line += ": " + t.product + " " + t.version
			if t.role != "" {
				line += ", " + t.role
			}
		}
		h.host.Tried(true, line)
		if l.options.Overrides && strings.HasPrefix(policy, "allkeys-") {
			h.host.Warn(h.name() + " may evict overrides: its maxmemory-policy is " + policy +
				", which drops keys without a TTL, too (set volatile-lru, volatile-lfu or noeviction)")
		}
		l.askStats(e.nowMicros)
	}}
	startFailed = &action{"fail", func(l *link, _ *command, e end) {
		l.startup.fail(&l.health, e.cause, l.stream.heard)
	}}
	startUnsure = &action{"fail, hang up if wrong", func(l *link, _ *command, e end) {
		l.health.complain("", l.reply.Bytes)
		l.startup.fail(&l.health, e.cause, l.stream.heard)
		l.replaceIfUseless(e.nowMicros)
	}}
	startEnd = &action{"fail, hang up", func(l *link, _ *command, e end) {
		l.startup.fail(&l.health, e.cause, l.stream.heard)
		l.hangUp(ended{e.cause, true}, e.nowMicros)
	}}
	startLeave = &action{"fail, abandon", func(l *link, k *command, e end) {
		k.kind = abandoned
		l.startup.fail(&l.health, e.cause, l.stream.heard)
	}}
)

// Bound: bytes of a field of INFO in the log. Beyond it, the field is left out. Protects the log.
const maxInfoBytes = 40

// infoField is a field of a reply to INFO for the log; "" if there is none, or it is long
// or not plain text.
func infoField(r redisresp.Reply, name string) string {
	value := infoLine(r, name)
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(value) > maxInfoBytes || bytes.ContainsFunc(value, hidden) {
		return ""
	}
	return string(value)
}

// infoLine returns the rest of the line after a field's name in a reply to INFO, or nil.
func infoLine(r redisresp.Reply, name string) []byte {
	if r.Kind != redisresp.Bulk {
		return nil
	}
	for line := range bytes.Lines(r.Bytes) {
		key, value, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if found && string(key) == name {
			return value
		}
	}
	return nil
}

// fail ends the check: Redis cannot be used. heard says whether this stream has brought
// any reply.
func (t *startupCheck) fail(h *health, cause Cause, heard bool) {
	if t.state != underWay {
		return
	}
	t.state = tried
	_, text := h.why(cause)
	if cause == Timeout && !heard {
		text += "; or the cluster lacks the bridge filter"
	}
	h.host.Tried(false, h.name()+" cannot be used: "+cause.String()+": "+text+"; the failure mode applies")
}
