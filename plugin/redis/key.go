package redis

// AppendKey appends the key of one limit of one identity: tag is
// "<rule>|<identity>", and suffix what a rule.LimitSet says of the limit. The braces
// make the keys of a tag one hash slot
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags).
func AppendKey(dst []byte, prefix string, tag []byte, suffix string) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, ":{"...)
	dst = append(dst, tag...)
	dst = append(dst, '}')
	return append(dst, suffix...)
}
