package links

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// request is what a manifest says about a consumed link.
type request struct {
	from       string // name or alias of the provider
	deployment string // empty: this deployment
	network    string // empty: the provider's default
	manual     bool   // the manifest describes the link itself
}

// read reads an entry of consumes. why says what is wrong with it; empty: nothing.
func (q *request) read(m map[string]any, name string) (why string) {
	q.from = name
	for _, key := range sortedKeys(m) {
		value := m[key]
		switch key {
		case "from", "deployment", "network":
			text, ok := value.(string)
			if !ok {
				return fmt.Sprintf("its %s must be a text", key)
			}
			switch key {
			case "from": // DEPLOYMENT.LINK is an old spelling
				q.from = text[strings.LastIndex(text, ".")+1:]
			case "deployment":
				q.deployment = text
			case "network":
				q.network = text
			}
		case "ip_addresses":
			if _, ok := value.(bool); !ok {
				return "its ip_addresses must be true or false"
			}
		case "instances", "properties", "address":
			q.manual = true
		case "name", "type":
			return fmt.Sprintf("it has the key %s, which only the spec of the job may have", key)
		}
	}
	_, from := m["from"]
	_, instances := m["instances"].([]any)
	_, properties := m["properties"]
	switch {
	case q.manual && from:
		return "it has both from and a description by hand (instances, properties, address): remove one of them"
	case properties && !instances:
		return "it has properties without instances; add the list instances, which may be empty"
	case m["instances"] != nil && !instances:
		return "its instances must be a list"
	}
	return ""
}

// manual returns a link that the manifest describes.
func manual(m map[string]any) map[string]any {
	link := map[string]any{"instances": []any{}, "properties": map[string]any{}}
	for _, key := range []string{"instances", "properties", "address"} {
		if m[key] != nil {
			link[key] = m[key]
		}
	}
	return link
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// ends returns the providers of offers.
func ends(offers []offer) []End {
	all := make([]End, len(offers))
	for i, o := range offers {
		all[i] = o.End
	}
	return all
}
