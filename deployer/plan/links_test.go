package plan

import (
	"slices"
	"testing"
)

// A changed link is one reason, which names the provider and what changed.
func TestLinkReasons(t *testing.T) {
	have, want := map[string]any{}, map[string]any{}
	AddLink(have, "web", "db", map[string]any{"instances": []any{1}, "properties": map[string]any{"port": 1}})
	AddLink(have, "web", "cache", map[string]any{"instances": []any{1}})
	AddLink(have, "web", "same", map[string]any{"instances": []any{1}})
	AddLink(want, "web", "db", map[string]any{"instances": []any{1, 2}, "properties": map[string]any{"port": 2}})
	AddLink(want, "web", "same", map[string]any{"instances": []any{1}})
	w := Wishes{Links: map[string]string{LinkName("web", "db"): "job db of group data", LinkName("web", "same"): "the manifest"}}
	got := texts(w.appliedReasons(ChangedParts(Digests("salt", have), Digests("salt", want)), 0))
	if want := []string{
		"link cache of job web has no provider any more",
		"link db of job web changed: instances, properties from job db of group data",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
