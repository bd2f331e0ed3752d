package document

import (
	"cmp"
	"slices"

	yaml2 "go.yaml.in/yaml/v2"

	"bootstrap/internal/keyorder"
)

// ordered returns the tree in types that yaml.v2 writes, with the keys of maps
// in the order of yaml.v2. That order has cycles: the text 001 comes before 00a,
// 00a before 1, and 1 before 001. yaml.v2 writes the keys of a cycle in a random
// order, but ordered always returns the same one.
func (n *node) ordered() any {
	if n == nil {
		return nil
	}
	switch n.kind {
	case listKind:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.ordered()
		}
		return list
	case mapKind:
		m := make(yaml2.MapSlice, len(n.entries))
		for i, e := range n.entries {
			m[i] = yaml2.MapItem{Key: e.key, Value: e.value.ordered()}
		}
		sortKeys(m)
		return m
	}
	return n.value
}

// sortKeys sorts a map. The result does not depend on the order before.
func sortKeys(m yaml2.MapSlice) {
	slices.SortStableFunc(m, func(a, b yaml2.MapItem) int { return cmp.Compare(scalarText(a.Key), scalarText(b.Key)) })
	slices.SortStableFunc(m, func(a, b yaml2.MapItem) int { return keyorder.Compare(a.Key, b.Key) })
}
