package artifact

import (
	"reflect"
	"testing"
)

// TestLinks reads what a job's spec consumes and provides.
func TestLinks(t *testing.T) {
	t.Parallel()
	db := Link{Name: "db", Type: "postgres", Optional: true}
	web := Link{Name: "web", Type: "http", Properties: []string{"web.port", "tls.ca"}}
	tests := map[string]struct {
		spec               string
		consumes, provides []Link
	}{
		"none":     {"name: x", nil, nil},
		"both":     {"consumes: [{name: db, type: postgres, optional: true}]\nprovides: [{name: web, type: http, properties: [web.port, tls.ca], shared: true}]", []Link{db}, []Link{web}},
		"null":     {"consumes:\nprovides: ~", nil, nil},
		"no lists": {"consumes: {name: db, type: x}\nprovides: db", nil, nil},
		"garbage":  {"consumes: [db, 1, {}, {name: db}, {name: 1, type: x}, {name: db, type: postgres, optional: yes, properties: x}]", []Link{db}, nil},
		"no names": {"provides: [{name: web, type: http, properties: [web.port, 1, ~, tls.ca]}]", nil, []Link{web}},
	}
	for name, test := range tests {
		var job Job
		if err := parseJobMF([]byte(test.spec), &job); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(job.Consumes, test.consumes) || !reflect.DeepEqual(job.Provides, test.provides) {
			t.Errorf("%s: got %v and %v", name, job.Consumes, job.Provides)
		}
	}
}
