package manifest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// section lists the keys of one map of the manifest: those that mean something
// here, and those that manifests carry for other tools, which are passed over
// in silence.
type section struct {
	name    string // [] stands for any index
	read    []string
	ignored []string
}

// sections are all maps of the manifest with fixed keys.
var sections = []section{
	{"", []string{
		"name", "releases", "networks", "resource_pools", "disk_pools", "jobs", "instance_groups",
		"properties", "tags", "update", "cloud_provider", "variables",
	}, []string{
		"director_uuid", "features", "stemcells", "azs", "vm_types", "vm_extensions", "disk_types", "addons", "compilation",
	}},
	{"releases[]", []string{"name", "url", "sha1"}, []string{"version", "stemcell", "exported_from"}},
	{"networks[]", []string{"name", "type", "cloud_properties", "dns", "subnets"}, []string{"ip", "netmask", "gateway"}},
	{"networks[].subnets[]", []string{"range", "gateway", "dns", "cloud_properties", "static", "reserved"},
		[]string{"az", "azs", "name"}},
	{"resource_pools[]", []string{"name", "network", "cloud_properties", "env", "stemcell"}, []string{"size"}},
	{"resource_pools[].stemcell", []string{"url", "sha1"}, []string{"name", "version", "os", "alias"}},
	{"disk_pools[]", []string{"name", "disk_size", "cloud_properties"}, nil},
	{"instance_groups[]", []string{
		"name", "instances", "lifecycle", "templates", "jobs", "networks", "persistent_disk", "persistent_disk_pool",
		"resource_pool", "properties",
	}, []string{
		"azs", "vm_type", "vm_extensions", "stemcell", "update", "migrated_from", "persistent_disk_type", "consumes", "provides",
	}},
	{"instance_groups[].jobs[]", []string{"name", "release", "properties", "consumes", "provides"},
		[]string{"custom_provider_definitions"}},
	{"instance_groups[].networks[]", []string{"name", "static_ips", "default"}, nil},
	{"update", []string{"update_watch_time", "vm_strategy"}, []string{
		"canaries", "canary_watch_time", "max_in_flight", "serial", "initial_deploy_az_update_strategy",
	}},
	{"cloud_provider", []string{
		"template", "templates", "properties", "mbus", "cert", "ssh_tunnel", "registry",
	}, nil},
	{"cloud_provider.template", []string{"name", "release"}, nil},
	{"cloud_provider.cert", []string{"ca"}, []string{"certificate", "private_key"}},
	{"cloud_provider.ssh_tunnel", []string{
		"user", "host", "port", "password", "private_key", "connection_refused_timeout", "auth_failure_timeout",
	}, nil},
	{"cloud_provider.registry", []string{"host", "port", "username", "password", "unauthenticated_get"}, nil},
}

// warnUnknownKeys reports the keys of a map that nobody reads. Keys that begin
// with "." or "x-" are for anchors and comments.
func (c cursor) warnUnknownKeys(name string) {
	i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
	known := sections[i]
	for _, e := range c.node.entries {
		key := scalarText(e.key)
		switch {
		case slices.Contains(known.read, key), slices.Contains(known.ignored, key):
		case strings.HasPrefix(key, "."), strings.HasPrefix(key, "x-"):
		default:
			c.report(true, e.pos, c.at.child(key), "unknown key, which is ignored%s", advice(key, known))
		}
	}
}

// advice says what the author of an unknown key may have meant.
func advice(key string, known section) string {
	if (key == "sha256" || key == "sha512") && slices.Contains(known.read, "sha1") {
		return fmt.Sprintf("; write sha1: %s:HEX", key)
	}
	if near := nearest(key, known.read); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	var places []string
	for _, s := range sections {
		if s.name != "" && slices.Contains(s.read, key) {
			places = append(places, s.name)
		}
	}
	switch {
	case len(places) == 0:
		return ""
	case len(places) > 3:
		places = places[:3]
	}
	return "; it is read in " + strings.Join(places, ", ")
}

// didYouMean returns a suggestion to add to a message about a name that is not
// among the options, or "".
func didYouMean(word string, options []string) string {
	if near := nearest(word, options); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// nearest returns the option that looks most like word, or "" if none does.
func nearest(word string, options []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", 1+len(word)/4
	for _, option := range options {
		if len(option) > 64 {
			continue
		}
		if d := distance(normal(word), normal(option)); option != "" && d <= least && (best == "" || d < least) {
			best, least = option, d
		}
	}
	return best
}

// normal drops differences of case and of separators.
func normal(key string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '-', '_', '.', ' ':
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that make b of a.
func distance(a, b string) int {
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
