package document

import (
	"slices"

	"bootstrap/internal/printable"
)

// checkNames reports names with control characters, such as a line feed: they would be in
// lists, logs, names of files and of hosts.
func (e *evaluation) checkNames() {
	var walk func(v Value)
	walk = func(v Value) {
		switch {
		case v.IsList():
			for _, item := range v.Items() {
				walk(item)
			}
		case v.IsMap():
			for key, value := range v.All() {
				switch {
				case slices.Contains([]string{"properties", "cloud_properties", "env", "options", "tags", "value"}, key):
				case value.IsText() && slices.Contains(namedBy(), key) && hidden(value.raw()):
					value.Fail("must not contain line feeds and other control characters, because it is a name")
				default:
					walk(value)
				}
			}
		}
	}
	walk(e.top())
}

// namedBy are the keys of a manifest whose values are names.
func namedBy() []string {
	return []string{"name", "alias", "release", "network", "resource_pool", "vm_type", "stemcell", "os", "version", "az", "disk_type", "persistent_disk_type",
		"disk_pool", "persistent_disk_pool", "from", "as", "job", "deployment", "type"}
}

func hidden(text string) bool {
	return slices.ContainsFunc([]rune(text), func(c rune) bool { return c == '\n' || c == '\t' || printable.Hidden(c) })
}
