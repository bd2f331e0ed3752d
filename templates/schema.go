package templates

import (
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"bootstrap/artifact"
	"bootstrap/internal/regular"
)

// draft is the only draft of JSON Schema in which a job may describe its properties.
const draft = "https://json-schema.org/draft/2020-12/schema"

// certificate is the type that jobs may use beside those of JSON Schema: text that is
// empty or a certificate.
const certificate = "certificate"

// unfit returns a failure for each property that does not fit the job's
// properties_schema.json, if it has one. As in the Director, the schema sees all
// properties that the job's spec declares, with null for those without a value. The error
// is only that of ctx.
func unfit(ctx context.Context, job *Job) (Failures, error) {
	text, err := regular.ReadUpTo(filepath.Join(job.Dir, artifact.PropertiesSchema), maxSchema)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	properties, compiled := job.declared(), false
	if err == nil {
		err = withinBudget(ctx, func(b *budget) error {
			schema, err := compileSchema(text, b)
			if err != nil {
				return err
			}
			compiled = true
			return schema.Validate(properties)
		})
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	wrong, ok := errors.AsType[*jsonschema.ValidationError](err)
	switch {
	case err == nil:
		return nil, nil
	case !ok:
		return Failures{&Failure{
			Release: job.Release, Job: job.Name, Message: fmt.Sprintf("its %s cannot be used: %v", artifact.PropertiesSchema, err),
			Doubtful: compiled && job.Context.unknownIn(properties),
		}}, nil
	}
	return job.failuresOf(wrong, properties), nil
}

// mostUnfit limits how many wrong properties of a job are reported.
const mostUnfit = 100

// failuresOf returns a failure for each cause of an error about the properties.
func (job *Job) failuresOf(wrong *jsonschema.ValidationError, properties map[string]any) Failures {
	var failures Failures
	causes := leaves(wrong, false)
	doubtful := make(map[*jsonschema.ValidationError]bool, len(causes))
	for _, c := range causes {
		doubtful[c.ValidationError] = job.Context.doubtsCause(c, properties)
	}
	// What is certain is reported in any case.
	slices.SortStableFunc(causes, func(a, b cause) int { return order(doubtful[a.ValidationError], doubtful[b.ValidationError]) })
	shown := causes[:min(len(causes), mostUnfit)]
	for _, w := range shown {
		failure := &Failure{Release: job.Release, Job: job.Name, Doubtful: doubtful[w.ValidationError]}
		name, value := named(properties, w.InstanceLocation)
		what, at := "its properties", job.propertiesAt()
		if name != "" {
			what, at = "property '"+name+"'", job.setAt(name)
		}
		if value == nil && name != "" {
			failure.Properties = []string{name}
			what += " has no value, but"
		}
		failure.Message = fmt.Sprintf("%s %s (%s)", what, demand(w.ErrorKind), artifact.PropertiesSchema)
		failure.Advice = "set it at " + at
		failures = append(failures, failure)
	}
	slices.SortStableFunc(failures, func(a, b *Failure) int { return strings.Compare(a.Message, b.Message) })
	if more := causes[len(shown):]; len(more) > 0 {
		failures = append(failures, &Failure{
			Release: job.Release, Job: job.Name, Message: fmt.Sprintf("%d more properties do not fit (%s)", len(more), artifact.PropertiesSchema),
			Doubtful: doubtful[more[0].ValidationError],
		})
	}
	return failures
}

// declared returns the properties that the job's spec declares, with their defaults, and
// nil for those without a value.
func (j *Job) declared() map[string]any {
	source, all := j.Context.source(), map[string]any{}
	for _, p := range j.Properties {
		value := find(source, p.Name)
		if value == nil {
			value = plain(p.Default)
		}
		set(all, p.Name, value)
	}
	return all
}

// compileSchema reads a schema. A schema may not refer to anything outside of it. The
// budget is for compiling the schema and for each use of it.
func compileSchema(text []byte, b *budget) (*jsonschema.Schema, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := checkSchema(parsed); err != nil {
		return nil, err
	}
	top, _ := parsed.(map[string]any)
	if top["$schema"] != draft {
		return nil, fmt.Errorf("its $schema must be %s", draft)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(b.compilePattern)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.RegisterFormat(&jsonschema.Format{Name: certificate, Validate: checkCertificate})
	const at = "schema:" + artifact.PropertiesSchema
	parsed = withCertificates(parsed)
	b.count(c, parsed)
	if err := c.AddResource(at, parsed); err != nil {
		return nil, err
	}
	return c.Compile(at)
}

// withCertificates returns the schema with the type certificate as text of the format
// certificate, which JSON Schema can express.
func withCertificates(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	for key, value := range s {
		s[key] = subschemas(key, value, withCertificates)
	}
	types, isList := s["type"].([]any)
	if !isList {
		types = []any{s["type"]}
	}
	i := slices.Index(types, any(certificate))
	if i < 0 {
		return s
	}
	if slices.Contains(types, any("string")) { // which includes certificates
		s["type"] = slices.Delete(types, i, i+1)
		return s
	}
	types[i] = "string"
	s["type"] = types
	return map[string]any{"allOf": []any{s, map[string]any{"format": certificate}}}
}

// checkCertificate refuses text that is neither empty nor has certificates as PEM or
// one as DER. Their contents are not looked at.
func checkCertificate(value any) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return nil
	}
	var found int
	for rest := []byte(text); ; found++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if strings.HasSuffix(block.Type, "CERTIFICATE") && !isCertificate(block.Bytes) {
			return errors.New("it is damaged")
		}
	}
	if found == 0 && !isCertificate([]byte(text)) {
		return errors.New("it is not a certificate")
	}
	return nil
}

// isCertificate reports whether DER has the outer structure of a certificate (RFC 5280,
// 4.1): crypto/x509 also refuses some that OpenSSL, and so the Director, accepts.
func isCertificate(der []byte) bool {
	var outer struct {
		TBS       asn1.RawValue
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	_, err := asn1.Unmarshal(der, &outer)
	return err == nil && outer.TBS.Tag == asn1.TagSequence && outer.Algorithm.Tag == asn1.TagSequence
}

// named returns the dotted name and the value of the property at a place.
func named(value any, place []string) (string, any) {
	var name strings.Builder
	for _, key := range place {
		switch v := value.(type) {
		case map[string]any:
			if name.Len() > 0 {
				name.WriteByte('.')
			}
			name.WriteString(key)
			value = v[key]
		case []any:
			name.WriteString("[" + key + "]")
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return name.String(), nil
			}
			value = v[i]
		}
	}
	return name.String(), value
}

// demand says what a schema demands of a value. It never shows the value, which may be
// a secret.
func demand(of jsonschema.ErrorKind) string {
	number := func(r *big.Rat) string { return strings.TrimSuffix(strings.TrimRight(r.FloatString(6), "0"), ".") }
	switch k := of.(type) {
	case *kind.Type:
		return "must be of type " + strings.Join(k.Want, " or ")
	case *kind.Format:
		if k.Want == certificate {
			return "must be a certificate, or empty"
		}
		return "must have the format " + k.Want
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Enum:
		return "must be one of " + asJSON(k.Want...)
	case *kind.Const:
		return "must be " + asJSON(k.Want)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.UniqueItems:
		return "must not have the same item twice"
	case *kind.Required:
		return "must have the keys " + strings.Join(k.Missing, ", ")
	case *kind.DependentRequired:
		return fmt.Sprintf("must also have the keys %s, because it has %s", strings.Join(k.Missing, ", "), k.Prop)
	case *kind.AdditionalProperties:
		return "must not have the keys " + strings.Join(k.Properties, ", ")
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d keys", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d keys", k.Want)
	case *kind.InvalidJsonValue:
		return "must be a finite number"
	case *kind.FalseSchema:
		return "must not be given"
	}
	return "must fulfil " + strings.Join(of.KeywordPath(), "/")
}

// asJSON returns values as JSON, with commas.
func asJSON(values ...any) string {
	var list []string
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("?")
		}
		list = append(list, string(text))
	}
	return strings.Join(list, ", ")
}
