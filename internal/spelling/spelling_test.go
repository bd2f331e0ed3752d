package spelling

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	options := []string{"resource_pools", "releases", "release", ""}
	for word, want := range map[string]string{
		"resource-pools": "resource_pools", "ResourcePool": "resource_pools", "relaese": "release", "releasse": "releases",
		"networks": "", "": "", "resource_pools_of_another_name": "",
	} {
		if got := Nearest(word, options); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := Nearest("plann", []string{"plain", "plan", "plans"}); got != "plan" {
		t.Error(got)
	}
	if got := Suggest("relaese", options); got != `; did you mean "release"?` {
		t.Error(got)
	}
}
