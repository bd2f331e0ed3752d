package links

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/internal/spelling"
)

// request is what a manifest says about a consumed link.
type request struct {
	of         string // name of the link in the spec of the job
	from       string // name or alias of the provider
	deployment string // empty: this deployment
	network    string // empty: the provider's default
	addresses  *bool  // ip_addresses; nil: not given
	manual     bool   // the manifest describes the link itself
	lenient    bool   // the manifest is in the style of create-env
}

// notMap says that an entry of consumes or provides is neither a map nor the word nil.
const notMap = "the manifest must describe it as a map, or as nil in quotes"

// consumesKeys are the keys of an entry of consumes.
var consumesKeys = [...]string{"from", "deployment", "network", "ip_addresses", "instances", "properties", "address"}

// unknownKey says that an entry of consumes or provides, at a path in the job, has a key that
// nothing reads.
func unknownKey(path, key string, known []string) string {
	if key == "name" || key == "type" {
		return fmt.Sprintf("%s has the key %s, which only the spec of the job may have", path, key)
	}
	if hint := spelling.Suggest(key, known); hint != "" {
		return fmt.Sprintf("the key %s.%s is unknown%s", path, key, hint)
	}
	return fmt.Sprintf("the key %s.%s is unknown; the known keys are %s", path, key, strings.Join(known, ", "))
}

// read reads an entry of consumes. why says what is wrong with it; empty: nothing.
func (q *request) read(m map[string]any) (why string) {
	for _, key := range sortedKeys(m) {
		value := m[key]
		text, isText := value.(string)
		switch key {
		case "from": // DEPLOYMENT.LINK is an old spelling
			text = strings.TrimRight(text, ".")
			if q.from = text[strings.LastIndex(text, ".")+1:]; q.from == "" {
				return "its key \"from\" must be the name of a link"
			}
		case "deployment", "network":
			if !isText && value != nil {
				return fmt.Sprintf("its key %q must be a text", key)
			}
			if key == "network" {
				q.network = text
			} else {
				q.deployment = text
			}
		case "ip_addresses":
			on, ok := value.(bool)
			if q.addresses = &on; !ok {
				return "its key \"ip_addresses\" must be true or false"
			}
		case "instances", "properties", "address":
			q.manual = true
		default:
			return unknownKey("consumes."+q.of, key, consumesKeys[:])
		}
	}
	_, from := m["from"]
	_, properties := m["properties"]
	_, instances := m["instances"]
	_, isList := m["instances"].([]any)
	switch {
	case from && (instances || properties):
		return "it has both from and a description by hand (instances, properties): remove one of them"
	case properties && !instances && !q.lenient: // else the instance is that of the job
		return "it has properties without instances; add the key instances with a list, which may be empty"
	case instances && !isList:
		return "its key \"instances\" must be a list"
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
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
