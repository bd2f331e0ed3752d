package document

import (
	"strings"
	"testing"
)

// Runtime configs of any form are merged or refused with the place in the file.
func TestRuntimeConfigForms(t *testing.T) {
	t.Parallel()
	manifest := write(t, "name: a\nreleases: [{name: b, version: 1}, x, null, {name: {a: b}, version: [1]}]\ntags: {a: b}\n")
	for text, want := range map[string]string{
		"":          "",
		"null":      "",
		"[]":        "must be a map with the keys",
		"x":         "must be a map with the keys",
		"1: 2":      "unknown key of a runtime config",
		"stemcells": "must be a map with the keys",
		"releases: [null, x, [], {name: [], version: {}}, {name: {a: b}, version: 1, url: []}]": "",
		"releases: [{name: b, version: 2}]":                                                     "releases[0].version: must be 1",
		"releases: {a: b}":                                                                      "releases: must be a list",
		"addons: [null, x, []]":                                                                 "",
		"addons: &a [*a]":                                                                       "the alias refers to a value that contains the alias itself",
		"addons: {}":                                                                            "addons: must be a list of addons",
		"variables: [null, x]":                                                                  "variables[0]: must be a map",
		"variables: x":                                                                          "variables: must be a list",
		"tags: {1: 2, a: {b: c}}":                                                               "",
		"tags: [x]":                                                                             "tags: must be a map",
	} {
		config := write(t, text)
		_, err := Read(t.Context(), manifest, Options{RuntimeConfigs: []string{config}}, func(top Value) { top.Plain() })
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), config+":1:")):
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// The version of a release in a runtime config may be a variable: its value is compared.
func TestRuntimeConfigVersionVariable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ own, config, want string }{
		"the same":              {"1", "((v))", ""},
		"another":               {"2", "((v))", "releases[0].version: must be the version of this release in the manifest, but its value is another one"},
		"in the manifest":       {"((v))", "1", ""},
		"another, the manifest": {"((v))", "2", "but its value is another one"},
		"missing":               {"1", "((other))", ""},
	} {
		manifest, config := write(t, "name: a\nreleases: [{name: b, version: "+c.own+"}]\n"), write(t, "releases: [{name: b, version: "+c.config+"}]")
		_, err := Read(t.Context(), manifest, Options{RuntimeConfigs: []string{config}, Vars: []string{"v=1"}}, func(top Value) { top.Plain() })
		switch {
		case name == "missing":
			if err == nil || !strings.Contains(err.Error(), "other") || strings.Contains(err.Error(), "another one") {
				t.Errorf("%s: %v", name, err)
			}
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
