package templates

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact"
)

// A failure is doubtful only if an unknown value may be its cause.
func TestDoubtfulTemplates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, template string
		doubtful       bool
	}{
		{"a known property", `<%= p("web.port").nonsense %>`, false},
		{"text besides", `properties of p <%= p('web.port').nonsense %>`, false},
		{"a syntax error", `<%= p("web.secret" %>`, false},
		{"a syntax error in what is evaluated", `<%= eval(p("web.secret") + "(") %>`, true},
		{"raise", `<% raise "never" %>`, false},
		{"an unknown property", `<%= p("web.secret").nonsense %>`, true},
		{"a part of it", `<%= p("web.tls.key").nonsense %>`, true},
		{"what contains it", `<%= p("web")["port"].nonsense %>`, true},
		{"one of several", `<%= p(["web.other", 'web.secret']).nonsense %>`, true},
		{"a known one of several", `<%= p(["web.other", 'web.port']).nonsense %>`, false},
		{"a default", `<%= p("web.other", p("web.secret")).nonsense %>`, true},
		{"without parentheses", `<%= (p "web.secret").nonsense %>`, true},
		{"a condition", `<% if_p("web.port", "web.secret") do |a, b| %><%= b.nonsense %><% end %>`, true},
		{"a condition of known ones", `<% if_p("web.port") do |a| %><%= a.nonsense %><% end %>`, false},
		{"a computed condition", `<% if_p("web.port", "web." + "secret") do |a, b| %><%= b.nonsense %><% end %>`, true},
		{"a computed name", `<%= p("web." + "secret").nonsense %>`, true},
		{"a changed name", `<%= p("web.SECRET".downcase).nonsense %>`, true},
		{"a literal at the end of a line", "<% x = p 'web.port'\n x.nonsense %>", false},
		{"a filled name", `<% x = "secret" %><%= p("web.#{x}").nonsense %>`, true},
		{"all properties", `<%= properties.web.secret.size.nonsense %>`, true},
		{"another way to p", `<%= public_send(:p, "web.secret").nonsense %>`, true},
		{"spec with a known address", `<%= spec.address.nonsense %>`, false},
		{"all of spec", `<%= spec.to_h.nonsense %>`, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "web", map[string]string{"config": test.template},
				artifact.Property{Name: "web.port"}, artifact.Property{Name: "web.secret"}, artifact.Property{Name: "web.tls"}, artifact.Property{Name: "web.other"})
			job.Context.Address = "10.0.0.1"
			job.Context.JobProperties = map[string]any{"web": map[string]any{"port": 80, "secret": "UNKNOWN", "tls": map[string]any{"key": "x UNKNOWN"}}}
			job.Context.Unknown = map[string]bool{"UNKNOWN": true, "x UNKNOWN": true}
			if got := failuresOf(t, job); len(got) != 1 || got[0].Doubtful != test.doubtful {
				t.Errorf("got %v, want doubtful: %t", got, test.doubtful)
			}
			job.Context.Unknown = nil
			if got := failuresOf(t, job); len(got) != 1 || got[0].Doubtful {
				t.Errorf("with known values: %v", got)
			}
		})
	}
}

// failuresOf renders a job and returns the failures.
func failuresOf(t *testing.T, job Job) Failures {
	t.Helper()
	err := start(t, Config{}).Render(t.Context(), []Job{job}, t.TempDir())
	var failures *Failures
	if !errors.As(err, &failures) {
		t.Fatalf("got %v, want failures", err)
	}
	return *failures
}

// What a schema demands of known values is certain, unless a condition depends on an unknown
// one.
func TestDoubtfulSchemas(t *testing.T) {
	t.Parallel()
	const unknown = "UNKNOWN"
	tests := []struct {
		name, schema string
		value        any
		want         string // c: certain, d: doubtful, in the order of the messages
	}{
		{"a known value", `{"type": "object", "properties": {"port": {"type": "integer"}}}`, map[string]any{"port": "many", "secret": unknown}, "c"},
		{"an unknown value", `{"properties": {"secret": {"maxLength": 3}}}`, map[string]any{"port": 1, "secret": unknown}, "d"},
		{"both", `{"properties": {"a": {"maxLength": 2}, "b": {"maxLength": 1}}}`, map[string]any{"a": unknown, "b": "known"}, "cd"},
		{"an item", `{"items": {"maxLength": 3}}`, []any{unknown, "ab"}, "d"},
		{"an item besides", `{"items": {"maxLength": 3}}`, []any{unknown, "abcd"}, "cd"},
		{"a map around", `{"type": "string"}`, map[string]any{"secret": unknown}, "c"},
		{"the length of a list", `{"maxItems": 1}`, []any{unknown, unknown}, "c"},
		{"equal items", `{"uniqueItems": true}`, []any{unknown, unknown}, "d"},
		{"a missing key", `{"required": ["port"]}`, map[string]any{"secret": unknown}, "c"},
		{"an unknown key", `{"required": ["port"]}`, map[string]any{unknown: 1}, "d"},
		{"the value of an unknown key", `{"additionalProperties": {"type": "string"}}`, map[string]any{unknown: 1}, "d"},
		{"alternatives", `{"anyOf": [{"required": ["x"]}, {"properties": {"secret": {"const": "a"}}}]}`, map[string]any{"secret": unknown}, "d"},
		{"alternatives of a known value", `{"properties": {"port": {"oneOf": [{"type": "string"}, {"minimum": 5}]}}}`, map[string]any{"port": 1, "secret": unknown}, "c"},
		{"a condition", `{"if": {"properties": {"secret": {"const": "a"}}}, "else": {"properties": {"port": {"minimum": 5}}}}`, map[string]any{"port": 1, "secret": unknown}, "d"},
		{"a condition by reference", `{"if": {"properties": {"secret": {"const": "a"}}}, "else": {"$ref": "#/$defs/x"}}`, map[string]any{"port": 1, "secret": unknown}, "d"},
		{"a condition that adds a key", `{"if": {"properties": {"secret": {"const": "a"}}}, "else": {"required": ["port"]}}`, map[string]any{"secret": unknown}, "d"},
		{"a condition of known values", `{"if": {"properties": {"mode": {"const": "a"}}}, "then": {"properties": {"port": {"minimum": 5}}}}`, map[string]any{"port": 1, "mode": "a"}, "c"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "web", nil, artifact.Property{Name: "x"})
			put(t, filepath.Join(job.Dir, artifact.PropertiesSchema),
				`{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"x": `+test.schema+`}, "$defs": {"x": {"properties": {"port": {"minimum": 5}}}}}`)
			job.Context.JobProperties = map[string]any{"x": test.value}
			job.Context.Unknown = map[string]bool{unknown: true}
			var got strings.Builder
			for _, f := range failuresOf(t, job) {
				got.WriteString(map[bool]string{false: "c", true: "d"}[f.Doubtful])
			}
			letters := got.String()
			if letters != test.want && !(test.want == "cd" && letters == "dc") {
				t.Errorf("got %s, want %s", letters, test.want)
			}
		})
	}
}
