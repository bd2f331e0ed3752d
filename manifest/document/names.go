package document

import (
	"maps"
	"slices"
)

// Names returns texts that are not redacted, even if a secret equals one of them: the
// names of variables and, if they are written in plain text, keys and the names of list
// items.
func (d *Document) Names() []string {
	names := map[string]bool{}
	d.root.names(names, d.plainText)
	for name := range d.byName {
		names[name] = true
	}
	for _, values := range []variables{d.vars, d.sourced, d.recorded} {
		for name := range values {
			names[name] = true
		}
	}
	if d.store != nil {
		for _, name := range d.store.names {
			names[name] = true
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// names adds the keys below n and the names of items. Texts that come from
// variables are left out.
func (n *node) names(set, plain map[string]bool) {
	for _, item := range n.items {
		item.names(set, plain)
	}
	for _, entry := range n.entries {
		key := scalarText(entry.key)
		if plain[key] {
			set[key] = true
		}
		switch key {
		case "name", "id", "key", "release": // the first three are in the paths of Diff
			if text, ok := entry.value.value.(string); ok && plain[text] {
				set[text] = true
			}
		}
		entry.value.names(set, plain)
	}
}
