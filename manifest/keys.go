package manifest

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
	"bootstrap/manifest/document"
)

// section reports whether the value is a map, and warns about keys that are
// unknown in the named section. An absent value is not reported.
func section(v document.Value, name string) bool {
	if !v.Map() {
		return false
	}
	warnUnknownKeys(v, name)
	return true
}

// warnUnknownKeys warns about the keys of a map that have no meaning. Keys that
// begin with "." or "x-" are for anchors and comments.
func warnUnknownKeys(v document.Value, name string) {
	i := slices.IndexFunc(sections, func(s keySection) bool { return s.name == name })
	known := sections[i]
	for key, value := range v.All() {
		switch {
		case known.reads(key), slices.Contains(known.ignored, key), known.open:
		case strings.HasPrefix(key, "."), strings.HasPrefix(key, "x-"):
		default:
			value.WarnKey("unknown key, which is ignored%s", advice(key, known))
		}
	}
}

// advice returns what the author of an unknown key may have meant, or "".
func advice(key string, known keySection) string {
	if (key == "sha256" || key == "sha512") && known.reads("sha1") {
		return fmt.Sprintf("; write sha1: %s:HEX", key)
	}
	if near := spelling.Nearest(key, known.keys()); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	var places []string
	for _, s := range sections {
		if s.name != "" && s.reads(key) {
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
