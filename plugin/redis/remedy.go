package redis

import "bytes"

// remedy tells an operator what to do about an error.
type remedy struct{ prefix, text string }

const useRedisProxy = "this is a node of a Redis Cluster: use redis_proxy, see docs/operations.md"

// remedies are found by how the error's text begins: with a code
// (https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors),
// or, if that is but ERR, with the words of Redis or of Envoy's redis_proxy.
var remedies = [...]remedy{
	{"DENIED", "Redis is in protected mode: give it a password, or set protected-mode no"},
	{"NOAUTH", "set redis.password or redis.password_env"},
	{"WRONGPASS", "check redis.username and the password"},
	{"ERR invalid password", "check the password that redis_proxy expects"},
	{"ERR AUTH", "the server has no password: remove redis.password or redis.password_env"},
	{"ERR Client sent AUTH", "the server has no password: remove redis.password or redis.password_env"},
	{"ERR wrong number of arguments for 'auth' command", "this server has no users: remove redis.username"},
	{"NOPERM", "give the ACL user the rights that docs/operations.md lists, on keys that begin with redis.key_prefix"},
	{"ERR DB index", "check redis.database"},
	{"ERR invalid DB index", "check redis.database"},
	{"ERR SELECT is not allowed", "a Redis Cluster has database 0 only: remove redis.database"},
	{"ERR max number of clients reached", "raise maxclients"},
	{"ERR unknown command", "the server, or redis_proxy before it, does not offer this command"},
	{"MOVED", useRedisProxy},
	{"ASK", useRedisProxy},
	{"CROSSSLOT", useRedisProxy},
	{"TRYAGAIN", "the Redis Cluster is moving this slot: wait until it is done"},
	{"CLUSTERDOWN", "the Redis Cluster does not cover all slots, or has no majority: see CLUSTER INFO"},
	{"READONLY", "this is a replica: point the cluster's endpoint at the primary"},
	{"MASTERDOWN", "this is a replica that has lost its primary: point the cluster's endpoint at the primary"},
	{"LOADING", "Redis is loading its data set: wait until it is done"},
	{"BUSY", "a script blocks Redis: see SCRIPT KILL"},
	{"OOM", "Redis is full: raise maxmemory, or set maxmemory-policy volatile-lru"},
	{"MISCONF", "Redis cannot save its data and refuses writes: see its log"},
	{"NOREPLICAS", "Redis has fewer replicas than min-replicas-to-write"},
	{"NOSCRIPT", "Redis does not keep a script that it was just sent"},
	{"no upstream host", "redis_proxy has no healthy Redis: look at its cluster's endpoints"},
	{"upstream failure", "redis_proxy lost or could not reach its Redis: look at its cluster's endpoints"},
	{"upstream protocol error", "the server behind redis_proxy does not speak RESP"},
}

// findRemedy is the remedy for an error text, nil if none is known.
func findRemedy(text []byte) *remedy {
	for i := range remedies {
		r := &remedies[i]
		if rest, ok := bytes.CutPrefix(text, []byte(r.prefix)); ok && (len(rest) == 0 || rest[0] == ' ') {
			return r
		}
	}
	return nil
}

// wellKnown is how an error text begins if that is one of Redis' own, else "ERR".
func wellKnown(text []byte) string {
	if r := findRemedy(text); r != nil {
		return r.prefix
	}
	return "ERR"
}
