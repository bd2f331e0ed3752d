package network

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"bootstrap/internal/number"
)

// Parse reads the list networks of a decoded YAML document (maps, slices, texts,
// numbers) and returns all its problems. It also returns networks with problems if they
// have a name, so that the caller can check uses of them.
func Parse(list any, rules Rules) ([]Network, []Problem) {
	r := &reader{rules: rules}
	items, ok := list.([]any)
	switch {
	case list != nil && !ok:
		r.fail("networks", InvalidType, "must be a list of networks, not %s", describe(list))
	case len(items) == 0:
		r.fail("networks", NoNetworks, "must contain at least one network")
	}
	var networks []Network
	for i, item := range items {
		path := fmt.Sprintf("networks[%d]", i)
		fields, ok := r.fields(path, item)
		if !ok {
			continue
		}
		name, ok := r.text(path, fields, "name", true)
		if !ok {
			continue
		}
		for _, other := range networks {
			if canonical(other.Name) == canonical(name) {
				r.fail(path+".name", CanonicalNameTaken, "%q is the same name as %q of another network: names that differ only in case, '_' and '-' are the same", name, other.Name)
			}
		}
		networks = append(networks, r.network(path, name, fields))
	}
	return networks, r.problems
}

// canonical returns the name in the form in which the Director compares names.
func canonical(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// reader collects the problems of a document.
type reader struct {
	rules    Rules
	problems []Problem
}

// fail adds a problem.
func (r *reader) fail(path, kind, format string, args ...any) {
	r.problems = append(r.problems, Problem{Path: path, Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// fields returns a value that must be a map.
func (r *reader) fields(path string, value any) (map[string]any, bool) {
	fields, ok := value.(map[string]any)
	if !ok {
		r.fail(path, InvalidType, `must be a map (lines "key: value"), not %s`, describe(value))
	}
	return fields, ok
}

// text returns a field that must be a text. If it is absent or of another type,
// ok is false.
func (r *reader) text(path string, fields map[string]any, key string, needed bool) (text string, ok bool) {
	value := fields[key]
	if value == nil {
		if needed {
			r.fail(path+"."+key, MissingField, "must be provided")
		}
		return "", false
	}
	text, ok = value.(string)
	if !ok {
		r.fail(path+"."+key, InvalidType, "must be a text, not %s", describe(value))
	}
	return text, ok
}

// list returns a field that must be a list, if it is given.
func (r *reader) list(path string, fields map[string]any, key string) []any {
	value := fields[key]
	list, ok := value.([]any)
	if !ok && value != nil {
		r.fail(path+"."+key, InvalidType, "must be a list, not %s", describe(value))
	}
	return list
}

// filled is list for a field that must be given and must not be empty; otherwise it
// adds a problem of the kind.
func (r *reader) filled(path string, fields map[string]any, key, kind, message string) []any {
	list, isList := fields[key].([]any)
	if len(list) == 0 && (isList || fields[key] == nil) {
		r.fail(path+"."+key, kind, "%s", message)
		return nil
	}
	return r.list(path, fields, key)
}

// cloudProperties returns the field cloud_properties; never nil.
func (r *reader) cloudProperties(path string, fields map[string]any) map[string]any {
	value := fields["cloud_properties"]
	properties, ok := value.(map[string]any)
	if !ok && value != nil {
		r.fail(path+".cloud_properties", InvalidType, `must be a map (lines "key: value"), not %s`, describe(value))
	}
	if properties == nil {
		return map[string]any{}
	}
	return maps.Clone(properties)
}

// describe returns the type of a value, for messages.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return fmt.Sprint(value)
}

// network reads one network.
func (r *reader) network(path, name string, fields map[string]any) Network {
	n := Network{Name: name, Type: Manual}
	if kind, ok := r.text(path, fields, "type", false); ok {
		n.Type = Type(kind)
	}
	n.Scope, _ = r.text(path, fields, "scope", false)
	switch n.Type {
	case Manual:
		r.manual(path, &n, fields)
	case Dynamic:
		r.dynamic(path, &n, fields)
	case VIP:
		n.CloudProperties = r.cloudProperties(path, fields)
		for i, item := range r.list(path, fields, "subnets") {
			r.vipSubnet(fmt.Sprintf("%s.subnets[%d]", path, i), &n, item)
		}
	default:
		r.fail(path+".type", InvalidNetworkType, "must be manual, dynamic or vip, but is %q", n.Type)
	}
	return n
}

// manual reads the subnets of a manual network.
func (r *reader) manual(path string, n *Network, fields map[string]any) {
	items := r.list(path, fields, "subnets")
	switch {
	case fields["subnets"] == nil:
		r.fail(path+".subnets", MissingField, "must be provided: a manual network has at least one subnet")
	case len(items) == 0 && fields["subnets"] != nil:
		if _, ok := fields["subnets"].([]any); ok {
			r.fail(path+".subnets", InvalidProperty, "must contain at least one subnet")
		}
	}
	for i, item := range items {
		place := fmt.Sprintf("%s.subnets[%d]", path, i)
		entry, ok := r.fields(place, item)
		if !ok {
			continue
		}
		s, ok := r.manualSubnet(place, entry)
		for _, other := range n.Subnets {
			switch {
			case !ok || !other.Range.IsValid():
			case other.Range.Overlaps(s.Range):
				r.fail(place+".range", OverlappingSubnets, "the range %s has addresses of %s, the range of another subnet of this network", s.Range, other.Range)
			case other.Range.Addr().Is4() == s.Range.Addr().Is4() && other.Prefix != s.Prefix:
				r.fail(place+".prefix", PrefixSizesDiffer, "must be the same in all subnets of a network, but is %d here and %d in %s", s.Prefix, other.Prefix, other.Range)
			}
		}
		n.Subnets = append(n.Subnets, s)
	}
	without := slices.IndexFunc(n.Subnets, func(s Subnet) bool { return len(s.Zones) == 0 })
	if without >= 0 && len(n.zones()) > 0 {
		r.fail(fmt.Sprintf("%s.subnets[%d]", path, without), InvalidZone, "either all subnets of a network name their zones (az or azs), or none; this one has none")
	}
}

// manualSubnet reads a subnet of a manual network. ok is false if its range is unknown;
// then nothing that depends on the range is checked.
func (r *reader) manualSubnet(path string, fields map[string]any) (s Subnet, ok bool) {
	s.CloudProperties = r.cloudProperties(path, fields)
	s.DNS = r.dns(path, fields)
	s.Zones = r.zones(path, fields)
	text, given := r.text(path, fields, "range", true)
	reserved := r.ranges(path+".reserved", fields["reserved"])
	static := r.ranges(path+".static", fields["static"])
	if given {
		s.Range, ok = parseBlock(text)
	}
	switch {
	case !given:
	case !ok:
		r.fail(path+".range", InvalidRange, "%q is not a block of addresses such as 10.0.0.0/24", text)
	case s.Range.IsSingleIP():
		r.fail(path+".range", InvalidRange, "%s must include at least 2 addresses", s.Range)
	}
	gateway, given := r.text(path, fields, "gateway", !r.rules.GatewayOptional)
	addr, single := parseAddress(gateway)
	switch {
	case !given:
	case !single:
		r.fail(path+".gateway", InvalidGateway, "%q must be a single IP", gateway)
	case !ok:
	case !s.Range.Contains(addr):
		r.fail(path+".gateway", InvalidGateway, "%s must be inside the range %s", addr, s.Range)
	case addr == s.Range.Addr():
		r.fail(path+".gateway", InvalidGateway, "%s can't be the network id of %s", addr, s.Range)
	case addr == netipx.PrefixLastIP(s.Range):
		r.fail(path+".gateway", InvalidGateway, "%s can't be the broadcast IP of %s", addr, s.Range)
	default:
		s.Gateway = addr
	}
	if !ok {
		return s, false
	}
	s.Prefix = r.prefix(path, fields, s.Range)
	for _, item := range reserved {
		if !rangeOf(s.Range, item.IPRange) {
			r.fail(item.path, ReservedIPOutOfRange, "%s is out of the range %s", show(item.IPRange), s.Range)
			continue
		}
		s.Reserved = append(s.Reserved, item.IPRange)
	}
	r.static(&s, static)
	return s, true
}

// rangeOf reports whether all addresses of the range are in the block.
func rangeOf(block netip.Prefix, r netipx.IPRange) bool {
	return block.Contains(r.From()) && block.Contains(r.To())
}

// static adds the list static to a subnet whose other fields are complete.
func (r *reader) static(s *Subnet, items []placed) {
	restricted := s.restricted()
	for _, item := range items {
		if !rangeOf(s.Range, item.IPRange) {
			r.fail(item.path, StaticIPOutOfRange, "%s is out of the range %s", show(item.IPRange), s.Range)
			continue
		}
		blocks, ok := item.IPRange, true
		if !isSingle(s.Range.Addr(), s.bits()) {
			if blocks, ok = wholeBlocks(item.IPRange, s.bits()); !ok {
				r.fail(item.path, PrefixStaticIPNotAtBase, "%s has no address at which a block of the length %d begins; the block around it begins at %s",
					show(item.IPRange), s.bits(), blockAt(item.From(), s.bits()).Addr())
				continue
			}
		}
		if restricted.OverlapsRange(blocks) {
			addr := firstOf(restricted, blocks)
			r.fail(item.path, StaticIPOutOfRange, "%s contains %s, which is %s", show(blocks), addr, s.whyRestricted(addr))
			continue
		}
		s.Static = append(s.Static, blocks)
	}
}

// firstOf returns the lowest address that both sets contain.
func firstOf(set *netipx.IPSet, r netipx.IPRange) netip.Addr {
	var b netipx.IPSetBuilder
	b.AddRange(r)
	b.Intersect(set)
	both, _ := b.IPSet()
	return both.Ranges()[0].From()
}

// wholeBlocks returns the blocks whose first addresses are in the range.
func wholeBlocks(r netipx.IPRange, bits int) (netipx.IPRange, bool) {
	first := blockAt(r.From(), bits)
	if first.Addr() != r.From() {
		next := netipx.PrefixLastIP(first).Next()
		if !next.IsValid() {
			return netipx.IPRange{}, false
		}
		first = blockAt(next, bits)
	}
	if r.To().Less(first.Addr()) {
		return netipx.IPRange{}, false
	}
	return netipx.IPRangeFrom(first.Addr(), netipx.PrefixLastIP(blockAt(r.To(), bits))), true
}

// prefix returns the length of the blocks that instances get in the range.
func (r *reader) prefix(path string, fields map[string]any, within netip.Prefix) int {
	length := within.Addr().BitLen()
	value := fields["prefix"]
	if value == nil {
		return length
	}
	bits, err := number.Bound{Most: length}.Lenient(value)
	switch {
	case err != nil:
		r.fail(path+".prefix", InvalidProperty, "must be the length of a block, from %d to %d, but is %s", within.Bits(), length, describe(value))
	case bits < within.Bits():
		r.fail(path+".prefix", PrefixSizeTooBig, "a block of the length %d is larger than the range %s", bits, within)
	default:
		return bits
	}
	return length
}

// fits reports whether a value is a number within the bound, or text with one.
func fits(b number.Bound, value any) bool {
	_, err := b.Lenient(value)
	return err == nil
}

// dns reads a list of name servers; nil: there is no list, which is not an empty one.
func (r *reader) dns(path string, fields map[string]any) []netip.Addr {
	var servers []netip.Addr
	if fields["dns"] != nil {
		servers = []netip.Addr{}
	}
	for i, item := range r.list(path, fields, "dns") {
		text, _ := item.(string)
		addr, ok := parseAddress(text)
		if !ok {
			r.fail(fmt.Sprintf("%s.dns[%d]", path, i), InvalidDNS, "must be a single IP, not %s", describe(item))
			continue
		}
		servers = append(servers, addr)
	}
	return servers
}

// zones reads az or azs.
func (r *reader) zones(path string, fields map[string]any) []string {
	_, one := fields["az"]
	_, many := fields["azs"]
	if one && many {
		r.fail(path+".azs", InvalidProperty, "must not be given together with az")
		return nil
	}
	kinds := zoneKinds{InvalidProperty, UnknownSubnetZone, UnknownSubnetZone}
	if one {
		zone, ok := r.text(path, fields, "az", false)
		if !ok || !r.zone(path+".az", zone, kinds) {
			return nil
		}
		return []string{zone}
	}
	return r.zoneList(path, fields, kinds)
}

// zoneKinds are the problem kinds for a list of zones.
type zoneKinds struct{ empty, noText, unknown string }

// zoneList reads the field azs, each zone once.
func (r *reader) zoneList(path string, fields map[string]any, kinds zoneKinds) []string {
	var items []any
	if fields["azs"] != nil {
		items = r.filled(path, fields, "azs", kinds.empty, "must contain at least one zone, or be left out")
	}
	var zones []string
	for i, item := range items {
		place := fmt.Sprintf("%s.azs[%d]", path, i)
		zone, ok := item.(string)
		if !ok {
			r.fail(place, kinds.noText, "must be the name of a zone, not %s", describe(item))
		} else if r.zone(place, zone, kinds) && !slices.Contains(zones, zone) {
			zones = append(zones, zone)
		}
	}
	return zones
}

// zone checks that a zone is known.
func (r *reader) zone(path, zone string, kinds zoneKinds) bool {
	known := slices.Contains(r.rules.Zones, zone)
	if !known {
		r.fail(path, kinds.unknown, "there is no availability zone %q%s", zone, among(r.rules.Zones))
	}
	return known
}

// among returns the end of a message, with a list of the known names.
func among(names []string) string {
	if len(names) == 0 {
		return ""
	}
	if len(names) > 20 {
		names = append(slices.Clone(names[:20]), "…")
	}
	return "; known: " + strings.Join(names, ", ")
}

// placed is a range with its path in the document.
type placed struct {
	netipx.IPRange
	path string
}

// ranges reads a range, or a list of them.
func (r *reader) ranges(path string, value any) []placed {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		parsed, wrong := parseRange(v)
		if wrong != "" {
			r.fail(path, InvalidIPRangeFormat, "%s", wrong)
			return nil
		}
		return []placed{{parsed, path}}
	case []any:
		var all []placed
		for i, item := range v {
			all = append(all, r.ranges(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
		return all
	}
	r.fail(path, InvalidIPRangeFormat, "must be an address, a range or a block of addresses, not %s", describe(value))
	return nil
}

// dynamic reads the subnets of a dynamic network; without a list of subnets, the keys of
// the network itself describe its only subnet.
func (r *reader) dynamic(path string, n *Network, fields map[string]any) {
	for _, key := range []string{"az", "azs", "managed", "prefix"} {
		if _, given := fields[key]; given {
			r.fail(path+"."+key, InvalidProperty, "must not be given for a dynamic network")
		}
	}
	if _, given := fields["subnets"]; !given {
		n.Subnets = []Subnet{{DNS: r.dns(path, fields), CloudProperties: r.cloudProperties(path, fields)}}
		return
	}
	for _, key := range []string{"dns", "cloud_properties"} {
		if _, given := fields[key]; given {
			r.fail(path+"."+key, InvalidProperty, "must not be given beside subnets: give it for each subnet")
		}
	}
	items := r.filled(path, fields, "subnets", InvalidProperty, "must contain at least one subnet, or be left out")
	for i, item := range items {
		place := fmt.Sprintf("%s.subnets[%d]", path, i)
		entry, ok := r.fields(place, item)
		if !ok {
			continue
		}
		if single := (number.Bound{Least: 32, Most: 32}); entry["prefix"] != nil && !fits(single, entry["prefix"]) {
			r.fail(place+".prefix", InvalidProperty, "a dynamic network gives single addresses: the prefix must be left out, or be 32")
		}
		n.Subnets = append(n.Subnets, Subnet{DNS: r.dns(place, entry), Zones: r.zones(place, entry), CloudProperties: r.cloudProperties(place, entry)})
	}
}

// vipSubnet reads a list of addresses of a vip network.
func (r *reader) vipSubnet(path string, n *Network, item any) {
	fields, ok := r.fields(path, item)
	if !ok {
		return
	}
	s := Subnet{Zones: r.zones(path, fields)}
	if v4, v6 := (number.Bound{Least: 32, Most: 32}), (number.Bound{Least: 128, Most: 128}); fields["prefix"] != nil && !fits(v4, fields["prefix"]) && !fits(v6, fields["prefix"]) {
		r.fail(path+".prefix", InvalidProperty, "a vip network gives single addresses: the prefix must be left out")
	}
	for _, item := range r.ranges(path+".static", fields["static"]) {
		s.Static = append(s.Static, item.IPRange)
	}
	n.Subnets = append(n.Subnets, s)
}
