package manifest

import (
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// A value has the position in its own file; without a file, it has that of the place
// where it is filled in.
func TestPositionsOfValues(t *testing.T) {
	t.Parallel()
	text := replaced(t, "{name: default, type: dynamic}", "((networks))", "instances: 1", "instances: ((instances))")
	file := write(t, text)
	vars := write(t, "networks:\n  name: default\n  type: manuel\n")
	_, err := Load(t.Context(), file, document.Options{VarsFiles: []string{vars}, Vars: []string{"instances={a: b}"}})
	for _, want := range []string{
		vars + `:3:9: networks[0].type: must be manual`,
		file + `:9:25: instance_groups[0].instances: must be a whole number from 0 to 100000, not a map: the number of instances of the group`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// Errors do not show the secret values of variables.
func TestErrorsHideValues(t *testing.T) {
	t.Parallel()
	text := replaced(t, "type: dynamic", "type: ((x_token))", "instances: 1", "lifecycle: ((admin_password)), instances: 1, resource_pool: ((long_key))",
		"resource_pool: vms,", "", "cloud_provider:", "update: {((x_token)): 1, vm_strategy: ((longer_key))}\ncloud_provider:")
	_, err := Load(t.Context(), write(t, text), document.Options{Vars: []string{
		"x_token=open-sesame", "admin_password=12345", "long_key=" + strings.Repeat("sesame", 300), "longer_key=" + strings.Repeat("sesame", 3000),
	}})
	if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "12345") || strings.Count(err.Error(), `but is "<redacted>`) != 4 ||
		!strings.Contains(err.Error(), "update.<redacted>") {
		t.Error(err)
	}
}

// A value that looks like a variable is text, and is checked as text.
func TestValueThatLooksLikeAVariable(t *testing.T) {
	t.Parallel()
	text := replaced(t, "type: dynamic", "type: ((x))")
	_, err := Load(t.Context(), write(t, text), document.Options{Vars: []string{`x="((y))"`}})
	if err == nil || !strings.Contains(err.Error(), "must be manual, dynamic or vip") {
		t.Error(err)
	}
}

func TestPositionsOfOperations(t *testing.T) {
	t.Parallel()
	ops := write(t, "- type: replace\n  path: /networks/name=default/subnets?\n  value: [1]\n"+
		"- type: replace\n  path: /networks/name=default/type\n  value: manuel\n")
	_, err := Load(t.Context(), write(t, minimal), document.Options{Ops: []string{ops}})
	want := ops + `:6:10: networks[0].type: must be manual, dynamic or vip, but is "manuel"; did you mean "manual"?`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v\nwant %s", err, want)
	}
}
