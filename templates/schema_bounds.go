package templates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"bootstrap/internal/guard"
)

// Bounds of a properties_schema.json and of its use. A release may be written by somebody
// else, and a schema of 2 KB can ask for more work than any machine can do.
const (
	maxSchema        = 1 << 20 // bytes
	maxSchemaDepth   = 100
	maxSchemaObjects = 10_000
	maxPattern       = 64 << 10 // bytes
	maxDigits        = 400      // of a number, and of its exponent's value: more than a float64 has
	// maxChecks limits how often a value is compared with a part of the schema.
	maxChecks = 500_000
	// schemaTime limits compiling and using the schema together, patternTime comparing one
	// value with one pattern.
	schemaTime  = 10 * time.Second
	patternTime = 2 * time.Second
)

// budget is what the check of a job's properties may take. The library cannot be
// interrupted, but it calls formats and patterns: these end it with a panic, which
// withinBudget catches.
type budget struct {
	ctx  context.Context
	left int
}

// overspent is the value of that panic.
type overspent struct{ error }

// withinBudget calls fn and returns its error, or the error that it takes too much. Between
// two calls of a format the library cannot be ended, so it runs in a goroutine, which ends
// at the next call if nobody waits for it any more.
func withinBudget(ctx context.Context, fn func(b *budget) error) error {
	if err := context.Cause(ctx); err != nil {
		return err // nothing is started that would go on for a moment
	}
	ctx, cancel := context.WithTimeoutCause(ctx, schemaTime, fmt.Errorf("checking the properties takes longer than %s; simplify it", schemaTime))
	defer cancel()
	result := guard.Start(ctx, guard.Func(func() error { return fn(&budget{ctx: ctx, left: maxChecks}) }))
	select {
	case err := <-result:
		caught, ok := errors.AsType[*guard.Panic](err)
		if !ok {
			return err
		}
		if spent, ok := caught.Value.(overspent); ok {
			return spent.error
		}
		return fmt.Errorf("the library for JSON Schemas fails: %v; simplify it", caught.Value)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spend counts one check.
func (b *budget) spend() {
	b.left--
	switch {
	case b.left < 0:
		panic(overspent{fmt.Errorf("checking the properties needs more than %d comparisons; simplify it", maxChecks)})
	case b.left%64 == 0 && b.ctx.Err() != nil:
		panic(overspent{context.Cause(b.ctx)})
	}
}

// counted is the format that is added to each part of a schema that has none: every value
// has it, and its check is counted.
const counted = "bootstrap-counted"

// count makes all checks with the schema count. The library compares a value with a format
// before it looks at the schemas below.
func (b *budget) count(c *jsonschema.Compiler, schema any) {
	c.RegisterFormat(&jsonschema.Format{Name: counted, Validate: func(any) error {
		b.spend()
		return nil
	}})
	c.RegisterVocabulary(&jsonschema.Vocabulary{URL: "schema:" + counted, Compile: func(_ *jsonschema.CompilerContext, part map[string]any) (jsonschema.SchemaExt, error) {
		b.spend()
		if part["format"] == counted {
			return nil, nil
		}
		return spender{b}, nil
	}})
	c.AssertVocabs()
	addFormat(schema)
}

// addFormat adds the format to a schema and the schemas below.
func addFormat(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok || len(s) == 0 {
		return schema
	}
	for key, value := range s {
		s[key] = subschemas(key, value, addFormat)
	}
	if _, given := s["format"]; !given {
		s["format"] = counted
	}
	return s
}

// spender counts the checks with a part that has another format, or is at a place where the
// draft has no schemas. It is called after the schemas below were looked at.
type spender struct{ b *budget }

// Validate accepts every value.
func (s spender) Validate(*jsonschema.ValidatorContext, any) { s.b.spend() }

// subschemas returns the value of a key of a schema after a change of the schemas in it.
func subschemas(key string, value any, change func(schema any) any) any {
	switch key {
	case "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
		"unevaluatedItems", "unevaluatedProperties":
		return change(value)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		list, _ := value.([]any)
		for i := range list {
			list[i] = change(list[i])
		}
	case "$defs", "definitions", "dependentSchemas", "patternProperties", "properties":
		byName, _ := value.(map[string]any)
		for name := range byName {
			byName[name] = change(byName[name])
		}
	}
	return value
}

// checkSchema refuses a schema that is too deep or too large, or has numbers with which
// computing takes long.
func checkSchema(schema any) error {
	objects := 0
	var check func(value any, depth int) error
	check = func(value any, depth int) error {
		if depth > maxSchemaDepth {
			return fmt.Errorf("it is deeper than %d levels", maxSchemaDepth)
		}
		switch v := value.(type) {
		case json.Number:
			return checkNumber(v.String())
		case []any:
			for _, item := range v {
				if err := check(item, depth+1); err != nil {
					return err
				}
			}
		case map[string]any:
			if objects++; objects > maxSchemaObjects {
				return fmt.Errorf("it has more than %d objects", maxSchemaObjects)
			}
			for _, item := range v {
				if err := check(item, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return check(schema, 0)
}

// checkNumber refuses a number with too many digits.
func checkNumber(text string) error {
	digits, exponent, given := strings.Cut(strings.ToLower(text), "e")
	power := 0
	if given {
		var err error
		if power, err = strconv.Atoi(exponent); err != nil {
			power = maxDigits + 1
		}
	}
	if power > maxDigits || power < -maxDigits || len(digits) > maxDigits {
		return fmt.Errorf("the number %.40s has more than %d digits", text, maxDigits)
	}
	return nil
}

// pattern is a regular expression of a schema. Schemas are written for Ruby, whose
// expressions know more than those of Go.
type pattern struct {
	*regexp2.Regexp
	b *budget
}

func (b *budget) compilePattern(text string) (jsonschema.Regexp, error) {
	b.spend()
	if len(text) > maxPattern {
		return nil, fmt.Errorf("it has more than %d bytes", maxPattern)
	}
	re, err := regexp2.Compile(text, regexp2.RE2|regexp2.Multiline) // in Ruby, ^ and $ match at the beginning and end of lines
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = patternTime
	return pattern{re, b}, nil
}

// MatchString reports whether the text matches. A comparison without an answer is an error
// of the schema: under "not", "does not match" would mean that the value fits.
func (p pattern) MatchString(text string) bool {
	p.b.spend()
	ok, err := p.Regexp.MatchString(text)
	if err != nil {
		panic(overspent{fmt.Errorf("comparing a value with the pattern %.200s takes longer than %s; simplify it", p.String(), patternTime)})
	}
	return ok
}
