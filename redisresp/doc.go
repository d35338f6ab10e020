// Package redisresp encodes Redis commands and decodes Redis replies, both in
// RESP version 2, the Redis serialization protocol.
//
// Encoding appends to a slice of the caller: a command is an array of bulk
// strings.
//
//	b = redisresp.AppendArray(b[:0], 2)
//	b = redisresp.AppendBulkString(b, "INCRBY")
//	...
//
// Decoding borrows from the bytes that were received: a [Reply] points into
// them, and nothing is allocated. A [Decoder] tells three cases apart: a whole
// reply, the beginning of one, and bytes that no continuation can turn into one.
//
// Replies come from the network, so every length, count and depth is checked
// against [Limits] before anything depends on it, and no input makes the
// decoder panic, recurse or allocate.
//
// # Numbers
//
// An integer reply may carry a sign, plus or minus, and leading zeros: the
// specification writes it as :[<+|->]<value> with one or more digits. A length
// or a count is unsigned, so it takes leading zeros but no sign, apart from the
// two spellings of null, exactly $-1 and *-1. A number that does not fit into 64
// bits is malformed.
//
// # Source
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/
package redisresp
