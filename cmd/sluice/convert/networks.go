package convert

import (
	"fmt"
	"net/netip"
	"slices"
)

// networks converts keys that are addresses and networks: a rule for each length
// of prefix, as tiers. What is for all addresses is the last one's default.
func (h *higress) networks(item node, s higressSource, keys []node) {
	var sources, values []object
	var everywhere object
	for _, key := range keys {
		limit := h.limit(key)
		source, value, err := network(key.get("key").text())
		switch {
		case err != nil:
			h.report(Missing, key, "%v", err)
		case limit == nil:
		case value == "":
			everywhere = limit
		default:
			same := func(o object) bool { return compact(o) == compact(source) }
			i := slices.IndexFunc(sources, same)
			if i < 0 {
				i, sources, values = len(sources), append(sources, source), append(values, nil)
			}
			values[i] = values[i].with(value, []any{limit})
		}
	}
	if len(sources) > 1 {
		h.report(Differs, item, "there an address counts against the first network that has it; here against each of them")
	}
	for i, source := range sources {
		tiers := object{{"source", source}, {"values", values[i]}}
		if i == len(sources)-1 && everywhere != nil {
			tiers[1].value = values[i].with("others", []any{everywhere})
			tiers = tiers.with("default", "others")
		}
		h.add(item, h.rule(h.converter.name(h.name, s.name), s, h.when, field{"limits_by", tiers}))
	}
	if len(sources) == 0 && everywhere != nil {
		h.values(item, s, nil, []any{everywhere}, nil)
	}
}

// network is the component that an address or a network is a value of, and the
// value; "" for the network of all addresses.
func network(text string) (component object, value string, err error) {
	if slices.Contains([]string{"", "*", "0.0.0.0/0", "::/0"}, text) {
		return object{{"client_ip", true}}, "", nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return object{{"client_ip", true}}, addr.String(), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return nil, "", fmt.Errorf("%q is not an address or network", text)
	}
	prefix = prefix.Masked()
	if prefix.IsSingleIP() {
		return object{{"client_ip", true}}, prefix.Addr().String(), nil
	}
	name := "v6_prefix"
	if prefix.Addr().Is4() {
		name = "v4_prefix"
	}
	return object{{"client_ip", object{{name, int64(prefix.Bits())}}}}, prefix.String(), nil
}
