package convert

import (
	"slices"
	"strings"
)

// moreSpecific are the domains of other virtual hosts that Envoy prefers to those of h:
// whole ones to those with "*" at the beginning, these to those with "*" at the end, and
// the longer of two.
func moreSpecific(h *virtualHost, all []*virtualHost) (others []otherDomain) {
	for _, other := range all {
		for _, domain := range other.domains {
			prefers := func(own string) bool { return own != domain && prefers(domain, own) }
			if other == h || !slices.ContainsFunc(h.domains, prefers) {
				continue
			}
			others = append(others, otherDomain{other, hostMatcher([]string{domain})})
		}
	}
	return others
}

// prefers reports whether some host is of both domains, and Envoy takes the first.
func prefers(domain, to string) bool {
	if domain == "*" || to == "*" {
		return domain != "*"
	}
	begins, byPrefix := strings.CutSuffix(to, "*")
	ends, bySuffix := strings.CutPrefix(to, "*")
	switch {
	case bySuffix:
		return !strings.HasSuffix(domain, "*") && strings.HasSuffix(domain, ends)
	case byPrefix: // "*.com" and "a.*": "a.com" is of both
		return strings.HasPrefix(domain, "*") || strings.HasPrefix(domain, begins)
	}
	return false
}

// hostMatcher compares with any of a virtual host's domains; nil if they are all there are.
func hostMatcher(domains []string) (matcher any) {
	var patterns []string
	for _, domain := range domains {
		switch {
		case domain == "*" || domain == "":
			return nil
		case strings.HasPrefix(domain, "*"):
			matcher = object{{"suffix", withoutPort(domain[1:])}}
		case strings.HasSuffix(domain, "*"):
			matcher = object{{"prefix", domain[:len(domain)-1]}}
		default:
			matcher = withoutPort(domain)
		}
		if pattern, ok := asRegex(matcher); ok && !slices.Contains(patterns, pattern) {
			patterns = append(patterns, pattern)
		}
	}
	if len(patterns) > 1 {
		matcher = object{{"regex", strings.Join(patterns, "|")}}
	}
	return matcher
}

// withoutPort drops the port of a domain: "a:80", "a:*".
func withoutPort(domain string) string {
	host, port, found := strings.Cut(domain, ":")
	if !found || strings.Contains(port, ":") { // an IPv6 address stays
		return domain
	}
	return host
}
