package templates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact"
)

// newCertificate returns a certificate as PEM.
func newCertificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestSchema(t *testing.T) {
	t.Parallel()
	cert := newCertificate(t)
	half := cert[:len(cert)/2] + "\n-----END CERTIFICATE-----\n"
	tests := []struct {
		name, schema string
		value        any // value of the property x.y
		want         string
	}{
		{"type", `"type": "number"`, "text", "property 'x.y' must be of type number (properties_schema.json): set it at instance_groups[0].jobs[0].properties.x.y"},
		{"type fits", `"type": ["number", "boolean"]`, true, ""},
		{"a whole number", `"type": "integer"`, 2.0, ""},
		{"a large number", `"type": "integer", "maximum": 18446744073709551614`, uint64(18446744073709551615), "must be at most 18446744073709551614"},
		{"no value", `"type": "string"`, nil, "property 'x.y' has no value, but must be of type string"},
		{"no value, allowed", `"type": ["string", "null"]`, nil, ""},
		{"format", `"format": "ipv4"`, "192.168.0.900", "must have the format ipv4"},
		{"format fits", `"format": "ipv4"`, "192.168.0.90", ""},
		{"pattern", `"pattern": "^(?!admin$)[[:alpha:]]+$"`, "admin", "must match the pattern ^(?!admin$)[[:alpha:]]+$"},
		{"pattern fits", `"pattern": "^(?!admin$)[[:alpha:]]+$"`, "root", ""},
		{"pattern at a line", `"pattern": "^b$"`, "a\nb", ""},
		{"enum", `"enum": ["a", 1]`, "b", `must be one of "a", 1`},
		{"minimum", `"minimum": 0.5`, 0, "must be at least 0.5"},
		{"items", `"items": {"properties": {"port": {"type": "integer"}}}`, []any{map[any]any{"port": 1}, map[any]any{"port": "2"}}, "property 'x.y[1].port' must be of type integer"},
		{"keys", `"required": ["a"], "additionalProperties": false`, map[any]any{"b": 1}, "must have the keys a"},
		{"reference", `"$ref": "#/$defs/port"`, 70000, "must be at most 65535"},
		{"alternatives", `"oneOf": [{"type": "string"}, {"type": "number"}]`, true, "must fulfil oneOf"},
		{"certificate", `"type": "certificate"`, cert, ""},
		{"two certificates", `"type": "certificate"`, cert + cert, ""},
		{"certificate after text", `"type": "certificate"`, "subject: x\n" + cert, ""},
		{"empty certificate", `"type": "certificate"`, "", ""},
		{"no certificate", `"type": "certificate"`, "not a certificate", "must be a certificate, or empty"},
		{"half a certificate", `"type": "certificate"`, half, "must be a certificate, or empty"},
		{"certificate of another type", `"type": "certificate"`, 1, "must be of type string"},
		{"certificate or null", `"type": ["certificate", "null"], "description": "c"`, nil, ""},
		{"list of certificates", `"items": {"type": "certificate"}`, []any{cert, "x"}, "property 'x.y[1]' must be a certificate"},
		{"certificate as data", `"enum": [{"type": "certificate"}]`, map[any]any{"type": "certificate"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "web", nil, artifact.Property{Name: "x.y"})
			put(t, filepath.Join(job.Dir, artifact.PropertiesSchema), `{
				"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
				"properties": {"x": {"type": "object", "properties": {"y": {`+test.schema+`}}}},
				"$defs": {"port": {"type": "integer", "maximum": 65535}}
			}`)
			job.Context.JobProperties = map[string]any{"x": map[string]any{"y": test.value}, "undeclared": 1}
			job.Context.PropertiesPath = "instance_groups[0].jobs[0].properties"
			err := start(t, Config{}).Render(t.Context(), []Job{job}, t.TempDir())
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// The defaults of the job's spec are checked, and all errors are reported before a
// template is rendered.
func TestSchemaOfDefaults(t *testing.T) {
	t.Parallel()
	job := newJob(t, "web", map[string]string{"x.erb": "<%= raise 'rendered' %>"},
		artifact.Property{Name: "port", Default: "80"}, artifact.Property{Name: "host"}, artifact.Property{Name: "tls", Default: map[any]any{"on": true}})
	put(t, filepath.Join(job.Dir, artifact.PropertiesSchema), `{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {
		"port": {"type": "integer"}, "host": {"type": "string", "minLength": 30}, "tls": {"properties": {"on": {"const": false}}}}}`)
	secret := "hunter2"
	job.Context.GlobalProperties = map[string]any{"host": secret}
	out := t.TempDir()
	err := start(t, Config{}).Render(t.Context(), []Job{job}, out)
	failures, ok := errors.AsType[*Failures](err)
	if !ok || len(*failures) != 3 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"'host' must have at least 30 characters", "'port' must be of type integer", "'tls.on' must be false", "set it at properties.port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say: %s", err, want)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("a value is shown: %v", err)
	}
	if list, err := os.ReadDir(out); err != nil || len(list) > 0 {
		t.Errorf("there are files: %v, %v", list, err)
	}
}

func TestUnusableSchemas(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	put(t, filepath.Join(here, "other.json"), `{"type": "string"}`)
	tests := map[string]struct{ schema, want string }{
		"no JSON":         {`{`, "cannot be used"},
		"no draft":        {`{"type": "object"}`, "its $schema must be https://json-schema.org/draft/2020-12/schema"},
		"another draft":   {`{"$schema": "https://json-schema.org/draft/2019-09/schema"}`, "its $schema must be"},
		"a list":          {`[]`, "its $schema must be"},
		"a wrong keyword": {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "nothing"}`, "cannot be used"},
		"another file":    {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "file://` + filepath.ToSlash(here) + `/other.json"}`, "cannot be used"},
		"another host":    {`{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "https://127.0.0.1:1/x.json"}`, "cannot be used"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "web", nil)
			put(t, filepath.Join(job.Dir, artifact.PropertiesSchema), test.schema)
			err := start(t, Config{}).Render(t.Context(), []Job{job}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
