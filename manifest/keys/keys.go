// Package keys describes the maps of a document that have fixed keys. One table
// determines the messages about unknown keys and the document's JSON Schema.
package keys

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
	"bootstrap/manifest/document"
)

// Form is the form of a key's value. A variable is allowed in place of any value.
type Form uint8

// The forms of values.
const (
	Text      Form = iota
	Word           // text that is not blank
	Choice         // one of the field's values
	Whole          // a whole number from the field's least to its most
	Flag           // true or false
	Duration       // seconds, or a text such as 2m30s
	Watch          // two times in milliseconds
	Digest         // a multi-digest
	Address        // an IP address
	Addresses      // an IP address, a range or a block, or a list of these
	Paths          // a path or a list of paths
	CIDR           // a range of addresses in CIDR form
	Map            // a map of anything
	Tags           // a map of texts
	Share          // a whole number of at least the field's least, or a percentage
	Section        // a map with the keys of the field's section
)

// Field describes a key and its value.
type Field struct {
	Key   string
	Form  Form
	About string
	List  bool // a list of values of the form
	Need  bool
	// Of is the section of the form Section; with another form, a map with its
	// keys is allowed as well.
	Of          string
	Values      []string
	Least, Most int // Most 0: no limit
}

// Keys lists the keys of one map of the document: keys that are read, and keys of other
// tools, which get no warning.
type Keys struct {
	Name    string // with [] for any index
	Read    []Field
	Ignored []string
	Open    bool // other keys get no warning either
}

// Table lists all maps of a document that have fixed keys.
type Table []Keys

// reads reports whether the key is read in this section.
func (s Keys) reads(key string) bool {
	for _, f := range s.Read {
		if f.Key == key {
			return true
		}
	}
	return false
}

// Names returns the keys that are read in this section.
func (s Keys) Names() []string {
	keys := make([]string, len(s.Read))
	for i, f := range s.Read {
		keys[i] = f.Key
	}
	return keys
}

// Map reports whether the value is a map, and warns about keys that are unknown
// in the named section. An absent value is not reported.
func (t Table) Map(v document.Value, section string) bool {
	if !v.Map() {
		return false
	}
	t.WarnUnknown(v, section)
	return true
}

// WarnUnknown warns about keys of a map that are not read in the named section.
func (t Table) WarnUnknown(v document.Value, section string) {
	t.unknown(v, section, func(value document.Value, advice string) {
		value.WarnKey("unknown key, which is ignored%s", advice)
	})
}

// StrictMap is like Map, but unknown keys are errors.
func (t Table) StrictMap(v document.Value, section string) bool {
	if !v.Map() {
		return false
	}
	t.unknown(v, section, func(value document.Value, advice string) {
		value.FailKey("unknown key%s", advice)
	})
	return true
}

// unknown reports the values of keys that are not read in the named section. Keys that
// begin with "." or "x-" are for anchors and comments.
func (t Table) unknown(v document.Value, section string, report func(v document.Value, advice string)) {
	known := t[slices.IndexFunc(t, func(s Keys) bool { return s.Name == section })]
	for key, value := range v.All() {
		switch {
		case known.reads(key), slices.Contains(known.Ignored, key), known.Open:
		case strings.HasPrefix(key, "."), strings.HasPrefix(key, "x-"):
		default:
			report(value, t.advice(key, known))
		}
	}
}

// advice returns what the author of an unknown key may have meant, or "".
func (t Table) advice(key string, known Keys) string {
	if (key == "sha256" || key == "sha512") && known.reads("sha1") {
		return fmt.Sprintf("; write sha1: %s:HEX", key)
	}
	if near := spelling.Nearest(key, known.Names()); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	var places []string
	for _, s := range t {
		if s.Name != "" && s.reads(key) {
			places = append(places, s.Name)
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
