package manifest

import (
	"maps"
	"slices"
)

// publicNames lists what is no secret whatever the secrets are: the names of
// the manifest's parts, its variables, and the keys of its paths.
func (e *evaluation) publicNames(m *Manifest) []string {
	names := map[string]bool{m.Name: true, m.Group.Name: true}
	e.root.names(names, e.plainText)
	for _, r := range m.Releases {
		names[r.Name] = true
	}
	for _, n := range m.Networks {
		names[n.Name] = true
	}
	for _, job := range append(slices.Clone(m.Group.Jobs), m.CPI.Templates...) {
		names[job.Name], names[job.Release] = true, true
	}
	for name := range e.byName {
		names[name] = true
	}
	for name := range e.vars {
		names[name] = true
	}
	if e.store != nil {
		for _, name := range e.store.names {
			names[name] = true
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// names adds the keys below n and what is called by name there, unless a
// variable said it.
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
		case "name", "id", "key", "release": // by the first three, paths name the items of lists
			if text, ok := entry.value.value.(string); ok && plain[text] {
				set[text] = true
			}
		}
		entry.value.names(set, plain)
	}
}
