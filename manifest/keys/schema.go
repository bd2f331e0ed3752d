package keys

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Object is an object of JSON Schema.
type Object map[string]any

// Schema describes a document as JSON Schema (draft 2020-12), for editors and
// other tools. A document is described with operations applied and variables not
// filled in: ((name)) is allowed in place of any value.
type Schema struct {
	Title, Description string
	Table              Table // the section without a name is the whole document
	// Rules returns the rules between the keys of a section.
	Rules func(section string) []any
	// Definitions are those that the rules refer to, besides those of the sections.
	Definitions Object
}

// JSON returns the schema as indented text.
func (s Schema) JSON() ([]byte, error) {
	definitions := Object{
		"variable": Object{
			"description": "A variable: ((name)).",
			"type":        "string",
			"pattern":     variablePattern,
		},
	}
	maps.Copy(definitions, s.Definitions)
	var top Object
	for _, k := range s.Table {
		described := k.schema()
		if more := s.Rules(k.Name); more != nil {
			described["allOf"] = more
		}
		if k.Name == "" {
			top = described
			continue
		}
		definitions[DefinitionName(k.Name)] = described
	}
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = s.Title
	top["description"] = s.Description
	top["$defs"] = definitions
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(top); err != nil {
		return nil, fmt.Errorf("cannot write the schema: %w", err)
	}
	return b.Bytes(), nil
}

// DefinitionName returns the name of a section in the schema, without characters
// that would have to be escaped in references.
func DefinitionName(section string) string { return strings.ReplaceAll(section, "[]", "") }

// Reference refers to a definition.
func Reference(name string) Object { return Object{"$ref": "#/$defs/" + name} }

// Editors may read YAML 1.2, where some numbers and booleans of create-env are
// text; the patterns allow their usual spellings. The patterns of text in a
// certain form allow any text with a variable.
const (
	variablePattern = `\(\(.+\)\)`
	groupedDigits   = `^[0-9]+(_[0-9]+)+$`
	booleanWords    = `^([yY]|yes|Yes|YES|[nN]|no|No|NO|on|On|ON|off|Off|OFF)$`
	duration        = `^ *[+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+) *$`
	watchTime       = `^ *[0-9]+ *- *[0-9]+ *$`
	addressText     = `^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)$`
	cidrText        = `^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)/[0-9]{1,3}$`
	addressList     = `\(\(|^[0-9a-fA-F:./ -]+$` // addresses, ranges and blocks
	digestPiece     = `((sha1:)?[0-9a-fA-F]{40}|sha256:[0-9a-fA-F]{64}|sha512:[0-9a-fA-F]{128})`
	digestText      = `^ *$|^"?` + digestPiece + `(;` + digestPiece + `)*;?"?$`
	someShare       = `^ *([0-9]+|0*([0-9]{1,2}|100)%) *$`
	positiveShare   = `^ *0*([1-9][0-9]*|([1-9][0-9]?|100)%) *$`
	// otherKeys are allowed in every map.
	otherKeys = `^(\.|x-|<<$)|\(\(`
)

// schema describes a map with the keys of the section.
func (s Keys) schema() Object {
	properties, needed := Object{}, []string{}
	for _, key := range s.Ignored {
		properties[key] = Object{"description": "Ignored without a warning; other tools read it."}
	}
	for _, f := range s.Read {
		properties[f.Key] = f.Schema()
		if f.Need {
			needed = append(needed, f.Key)
		}
	}
	result := Object{
		"type":              "object",
		"properties":        properties,
		"patternProperties": Object{otherKeys: true},
	}
	if !s.Open {
		result["additionalProperties"] = false
	}
	if len(needed) > 0 {
		result["required"] = needed
	}
	return result
}

// When returns the rule that then applies if the key exists and its value
// matches the condition.
func When(key string, condition, then Object) Object {
	return Object{"if": Object{"required": []string{key}, "properties": Object{key: condition}}, "then": then}
}

// NotBoth returns the rule that only one of two keys may have values.
func NotBoth(one, other string) Object {
	some := Object{"type": "array", "minItems": 1}
	return Object{"not": Object{
		"required":   []string{one, other},
		"properties": Object{one: some, other: some},
	}}
}

// Schema describes the value of a key.
func (f Field) Schema() Object {
	var result Object
	if f.List {
		list := Object{"type": "array", "items": f.value(true)}
		if f.Least > 0 {
			list["minItems"] = f.Least
		}
		if f.Most > 0 {
			list["maxItems"] = f.Most
		}
		result = OrVariable(list, f.Need)
	} else {
		result = f.value(f.Need)
	}
	result["description"] = f.About
	return result
}

// value describes one value of the field: of its form or, if the form is another
// one, of its section.
func (f Field) value(need bool) Object {
	if f.Of == "" || f.Form == Section {
		return f.formed(need)
	}
	return Object{"anyOf": []any{f.formed(need), Reference(DefinitionName(f.Of))}}
}

// formed describes one value of the field's form. Null counts as absent, unless
// the value is needed.
func (f Field) formed(need bool) Object {
	text := func(pattern string) Object {
		return Object{"type": kinds(need, "string"), "pattern": `\(\(|` + pattern}
	}
	switch f.Form {
	case Word:
		return Object{"type": kinds(need, "string", "number", "boolean"), "pattern": `\S`}
	case Choice:
		return OrVariable(Object{"enum": f.Values}, need)
	case Whole:
		whole := Object{"type": "integer", "minimum": f.Least}
		if f.Most > 0 {
			whole["maximum"] = f.Most
		}
		return OrVariable(whole, need, Object{"type": "string", "pattern": groupedDigits})
	case Flag:
		return OrVariable(Object{"type": "boolean"}, need, Object{"type": "string", "pattern": booleanWords})
	case Duration:
		return OrVariable(Object{"type": "number", "minimum": 0}, need, Object{"type": "string", "pattern": duration})
	case Watch:
		return OrVariable(text(watchTime), need, Object{"type": "integer", "minimum": 0})
	case Digest:
		return text(digestText)
	case Address:
		return text(addressText)
	case Addresses:
		one := Object{"type": "string", "pattern": addressList}
		return OrVariable(Object{"anyOf": []any{one, Object{"type": "array", "items": one}}}, need)
	case Paths:
		one := Object{"type": "string", "pattern": `\S`}
		return Object{"anyOf": []any{one, Object{"type": "array", "items": one}, Object{"type": "null"}}}
	case CIDR:
		return text(cidrText)
	case Map:
		return OrVariable(Object{"type": "object"}, need)
	case Tags:
		tags := Object{"type": []string{"string", "number", "boolean", "null"}}
		return OrVariable(Object{"type": "object", "additionalProperties": tags}, need)
	case Share:
		pattern := someShare
		if f.Least > 0 {
			pattern = positiveShare
		}
		return OrVariable(text(pattern), need, Object{"type": "integer", "minimum": f.Least})
	case Section:
		return OrVariable(Reference(DefinitionName(f.Of)), need)
	}
	return Object{"type": kinds(need, "string", "number", "boolean")}
}

// kinds returns the types of a scalar, with null if it is not needed.
func kinds(need bool, types ...string) []string {
	if !need {
		types = append(types, "null")
	}
	return types
}

// OrVariable describes a value, a variable in its place, other spellings of it,
// and null if it is not needed.
func OrVariable(value Object, need bool, spellings ...Object) Object {
	list := []any{value, Reference("variable")}
	for _, spelling := range spellings {
		list = append(list, spelling)
	}
	if !need {
		list = append(list, Object{"type": "null"})
	}
	return Object{"anyOf": list}
}
