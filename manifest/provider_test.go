package manifest

import (
	"reflect"
	"strings"
	"testing"
)

func TestProviderDefinitions(t *testing.T) {
	const job = `{port: 1}`
	path, inputs := written(t, job, `{port: 1}, custom_provider_definitions: [{name: extra, type: sql, properties: [port]}]`)
	d, err := LoadDeployment(t.Context(), path, inputs)
	if err != nil {
		t.Fatal(err)
	}
	want := []ProviderDefinition{{Name: "extra", Type: "sql", Properties: []string{"port"}}}
	if got := d.Groups[0].Manifest.Group.Jobs[0].Custom; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for list, why := range map[string]string{
		`[{type: sql}]`:                                "the name of a link that the job provides",
		`[{name: extra, type: ""}]`:                    "must not be blank",
		`[{name: a, type: sql}, {name: a, type: sql}]`: `there is another definition "a"`,
	} {
		path, inputs := written(t, job, `{port: 1}, custom_provider_definitions: `+list)
		if _, err := LoadDeployment(t.Context(), path, inputs); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", list, err)
		}
	}
}
