package templates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// A schema of a release that somebody else has written cannot hang a command or use up its
// memory, and a comparison without an answer is never an answer.
func TestSchemaBounds(t *testing.T) {
	t.Parallel()
	nested := `{"type": "string"}`
	for range 12 {
		nested = `{"oneOf": [` + nested + `, ` + nested + `, {"not": ` + nested + `}]}`
		if len(nested) > 400_000 {
			break
		}
	}
	defs := `"l0": {"type": "integer"}`
	for i := range 40 {
		below := fmt.Sprintf(`{"$ref": "#/$defs/l%d"}`, i)
		defs += fmt.Sprintf(`, "l%d": {"oneOf": [%s, %s, {"allOf": [%s]}]}`, i+1, below, below, below)
	}
	slow := `"pattern": "^(a+)+$"`
	long := strings.Repeat("a", 40) + "!"
	tests := []struct {
		name, schema string
		value        any
		want         string
	}{
		{"nested alternatives", `"$ref": "#/$defs/l40", "$defs": {` + defs + `}`, "x", "its properties_schema.json cannot be used: checking the properties"},
		{"nested alternatives with another format", `"$ref": "#/$defs/l40", "$defs": {` + strings.ReplaceAll(defs, `{"oneOf"`, `{"format": "ipv4", "oneOf"`) + `}`, 1, "checking the properties"},
		{"alternatives at an unknown place", `"$ref": "#/$defs/other/l40", "$defs": {"other": {` + strings.ReplaceAll(defs, "#/$defs/", "#/$defs/other/") + `}}`, "x", "checking the properties"},
		{"many alternatives", `"anyOf": [` + nested + `]`, "x", "it has more than 10000 objects"},
		{"pattern", `"properties": {"x": {` + slow + `}}`, long, "comparing a value with the pattern ^(a+)+$ takes longer than 2s"},
		{"pattern under not", `"properties": {"x": {"not": {` + slow + `}}}`, long, "comparing a value with the pattern ^(a+)+$ takes longer than 2s"},
		{"patterns of names", `"properties": {"x": {"patternProperties": {"^(a+)+$": {}}}}`, map[any]any{long: 1}, "takes longer than 2s"},
		{"huge number", `"properties": {"x": {"multipleOf": 1e1000001}}`, 1, "the number 1e1000001 has more than 400 digits"},
		{"small number", `"properties": {"x": {"minimum": 1e-99999999999999999999}}`, 1, "has more than 400 digits"},
		{"infinite value", `"properties": {"x": {"minimum": 1}}`, math.Inf(1), "property 'x' must be a finite number"},
		{"deep", `"not": ` + strings.Repeat(`{"not": `, 200) + `{}` + strings.Repeat(`}`, 200), 1, "it is deeper than 100 levels"},
		{"large", `"description": "` + strings.Repeat("x", 1<<20) + `"`, 1, "it is larger than 1 MiB"},
		{"loop", `"properties": {"x": {"$ref": "#/properties/x"}}`, 1, "must fulfil"},
		{"many values of an enum", `"properties": {"x": {"uniqueItems": true, "items": {"not": {"enum": [` + strings.Repeat("{}, ", 9000) + `1]}}}}`, slices.Repeat([]any{map[any]any{"a": 1}}, 20_000), "properties_schema.json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "web", nil, artifact.Property{Name: "x"})
			put(t, filepath.Join(job.Dir, artifact.PropertiesSchema), `{"$schema": "https://json-schema.org/draft/2020-12/schema", `+test.schema+`}`)
			job.Context.JobProperties = map[string]any{"x": test.value}
			began := time.Now()
			failures, err := unfit(t.Context(), &job)
			if err != nil || len(failures) == 0 || !strings.Contains(failures.Error(), test.want) {
				t.Errorf("got %.300v, %v, want %s", failures, err, test.want)
			}
			if took := time.Since(began); took > 3*schemaTime {
				t.Errorf("it took %s", took)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("Ctrl-C")
			cancel(stop)
			if _, err := unfit(ctx, &job); !errors.Is(err, stop) {
				t.Errorf("after Ctrl-C: %v", err)
			}
		})
	}
}
