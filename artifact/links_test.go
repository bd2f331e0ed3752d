package artifact

import (
	"reflect"
	"slices"
	"testing"
)

// TestLinks reads what a job's spec consumes and provides, and says what a Director refuses.
func TestLinks(t *testing.T) {
	t.Parallel()
	db := Link{Name: "db", Type: "postgres", Optional: true}
	web := Link{Name: "web", Type: "http", Properties: []string{"web.port", "tls.ca"}}
	tests := map[string]struct {
		spec               string
		consumes, provides []Link
		wrong              []string
	}{
		"none":           {"name: x", nil, nil, nil},
		"both":           {"consumes: [{name: db, type: postgres, optional: true}]\nprovides: [{name: web, type: http, properties: [web.port, tls.ca], shared: true}]", []Link{db}, []Link{web}, nil},
		"null":           {"consumes:\nprovides: ~", nil, nil, nil},
		"empty":          {"consumes: []\nprovides: []", nil, nil, nil},
		"same names":     {"consumes: [{name: web, type: http}]\nprovides: [{name: web, type: http}]", []Link{{Name: "web", Type: "http"}}, []Link{{Name: "web", Type: "http"}}, nil},
		"no properties":  {"provides: [{name: web, type: http, properties: }]", nil, []Link{{Name: "web", Type: "http"}}, nil},
		"no lists":       {"consumes: {name: db, type: x}\nprovides: db", nil, nil, []string{"consumes must be a list: consumes: [{name: NAME, type: TYPE}]", "provides must be a list: provides: [{name: NAME, type: TYPE}]"}},
		"no maps":        {"consumes: [db, 1]", nil, nil, []string{"consumes[0]: a link must be a map: {name: NAME, type: TYPE}", "consumes[1]: a link must be a map: {name: NAME, type: TYPE}"}},
		"no name, type":  {"consumes: [{}, {name: db}, {name: 1, type: x}, {type: x, name: ''}, {name: db, type: postgres, optional: yes, properties: x}]", []Link{db}, nil, []string{"consumes[0]: a link must have a name, which is a text", "consumes[1]: a link must have a type, which is a text", "consumes[2]: a link must have a name, which is a text", "consumes[3]: a link must have a name, which is a text"}},
		"twice":          {"provides: [{name: a, type: x}, {name: b, type: x}, {name: a, type: z}]", nil, []Link{{Name: "a", Type: "x"}, {Name: "b", Type: "x"}}, []string{`provides[2]: another link has the name "a", too`}},
		"consumed twice": {"consumes: [{name: a, type: x}, {name: a, type: x}]", []Link{{Name: "a", Type: "x"}}, nil, []string{`consumes[1]: another link has the name "a", too`}},
		"optional":       {"provides: [{name: a, type: x, optional: false}]", nil, nil, []string{`provides[0]: the link "a" must not have the key optional, which only consumed links may have`}},
		"no names":       {"provides: [{name: a, type: http, properties: [web.port, 1]}, {name: b, type: http, properties: {a: 1}}]", nil, nil, []string{`provides[0]: the properties of the link "a" contain 1, which is not the name of a property`, `provides[1]: the properties of the link "b" must be a list of names`}},
	}
	for name, test := range tests {
		var job Job
		if err := parseJobMF([]byte(test.spec), &job); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(job.Consumes, test.consumes) || !reflect.DeepEqual(job.Provides, test.provides) || !slices.Equal(job.WrongLinks, test.wrong) {
			t.Errorf("%s: got %v and %v, wrong %q", name, job.Consumes, job.Provides, job.WrongLinks)
		}
	}
}

// TestKeysOfDefaults reads defaults with keys that are no texts in YAML 1.1, as Ruby and the
// JSON of a Director have them.
func TestKeysOfDefaults(t *testing.T) {
	t.Parallel()
	const spec = "properties:\n  b:\n    default: {y: 1, n: {on: [{No: 2}]}, ~: 3, 0x10: 4, 1.50: 5, 2026-01-02: 6, Y: 7, \"off\": 8, y.z: 9}\n  a: {default: y}\n  y: {}\n  1.0: {default: 2}\n"
	var job Job
	if err := parseJobMF([]byte(spec), &job); err != nil {
		t.Fatal(err)
	}
	want := []Property{
		{"1.0", "", 2, 2}, {"a", "", true, 1},
		{"b", "", map[string]any{
			"y": 1, "n": map[string]any{"true": []any{map[string]any{"false": 2}}}, "": 3, "16": 4, "1.5": 5, "2026-01-02": 6, "Y": 7, "off": 8, "y.z": 9,
		}, 0}, {"y", "", nil, 3},
	}
	if !reflect.DeepEqual(job.Properties, want) {
		t.Errorf("got %v, want %v", job.Properties, want)
	}
}
