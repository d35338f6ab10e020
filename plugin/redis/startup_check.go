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

// ask asks what answers, and does what a check needs. ACLs and redis_proxy may
// refuse INFO; sections come one by one, as only Redis 7 takes several at once
// (https://redis.io/docs/latest/commands/info/).
func (t *startupCheck) ask(p *pipeline, o *Options, nowMicros int64) {
	p.addInfo("server", askingServer, nowMicros)
	p.addInfo("replication", askingRole, nowMicros)
	if o.Overrides {
		p.addInfo("memory", askingMemory, nowMicros)
	}
	p.out = appendProbe(p.out, o.KeyPrefix, []byte("sluice"))
	p.addEncoded(startupProbing, nowMicros)
}

func (p *pipeline) addInfo(section string, k kind, nowMicros int64) {
	p.out = redisresp.AppendArray(p.out, 2)
	p.out = redisresp.AppendBulkString(p.out, "INFO")
	p.out = redisresp.AppendBulkString(p.out, section)
	p.addEncoded(k, nowMicros)
}

// products are the fields of INFO that tell what a server is, what is most
// particular first: others say which Redis they are like, too.
var products = []struct{ field, name string }{
	{"dragonfly_version", "Dragonfly"},
	{"valkey_version", "Valkey"},
	{"redis_version", "Redis"},
}

// noteServer reads INFO server.
func (t *startupCheck) noteServer(r redisresp.Reply) {
	for _, p := range products {
		if version := infoField(r, p.field); version != "" {
			t.product, t.version = p.name, version
			return
		}
	}
}

// noteRole reads INFO replication.
func (t *startupCheck) noteRole(r redisresp.Reply) {
	switch role := infoField(r, "role"); role {
	case "":
	case "master":
		t.role = "primary"
	case "slave":
		t.role = "replica"
	default:
		t.role = role
	}
}

// Bound: bytes of a field of INFO in the log. Beyond it, the field is left out. Protects the log.
const maxInfoBytes = 40

// infoField is a field of a reply to INFO for the log; "" if there is none, or it is long
// or not plain text.
func infoField(r redisresp.Reply, name string) string {
	value := infoLine(r, name)
	if len(value) > maxInfoBytes {
		return ""
	}
	for _, b := range value {
		if b <= ' ' || b > '~' {
			return ""
		}
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

// succeed ends the check: Redis can be used. It warns of a policy that evicts what has no
// TTL, as most overrides
// (https://redis.io/docs/latest/develop/reference/eviction/).
func (t *startupCheck) succeed(h *health, overrides bool, policy string) {
	t.state = tried
	line := h.name() + " answers"
	if t.version != "" {
		line += ": " + t.product + " " + t.version
		if t.role != "" {
			line += ", " + t.role
		}
	}
	h.host.Tried(true, line)
	if overrides && strings.HasPrefix(policy, "allkeys-") {
		h.host.Warn(h.name() + " may evict overrides: its maxmemory-policy is " + policy +
			", which drops keys without a TTL, too (set volatile-lru, volatile-lfu or noeviction)")
	}
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
