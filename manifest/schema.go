package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"bootstrap/manifest/gen"
)

// object is an object of JSON Schema.
type object map[string]any

// Schema returns the JSON Schema (draft 2020-12) of a manifest, for editors and
// other tools. It describes a manifest with operations applied and variables not
// filled in: ((name)) is allowed in place of any value. Only Load checks values
// that depend on other parts of the manifest, such as names and ranges.
func Schema() ([]byte, error) {
	definitions := object{
		"variable": object{
			"description": "A variable: ((name)).",
			"type":        "string",
			"pattern":     variablePattern,
		},
	}
	for _, kind := range gen.Types() {
		definitions["options."+kind] = optionsSchema(kind)
	}
	var top object
	for _, s := range sections {
		if s.name == "" {
			top = s.schema()
			continue
		}
		definitions[definitionName(s.name)] = s.schema()
	}
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	top["title"] = "Deployment manifest"
	top["description"] = "One VM, what runs on it, and the CPI that makes it."
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

// definitionName returns the name of a section in the schema, without characters
// that would have to be escaped in references.
func definitionName(section string) string { return strings.ReplaceAll(section, "[]", "") }

func reference(name string) object { return object{"$ref": "#/$defs/" + name} }

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
	remoteURL       = `^https?://`
	// otherKeys are allowed in every map.
	otherKeys = `^(\.|x-|<<$)|\(\(`
)

// schema describes a map with the keys of the section.
func (s keySection) schema() object {
	properties, needed := object{}, []string{}
	for _, key := range s.ignored {
		properties[key] = object{"description": "Ignored without a warning; other tools read it."}
	}
	for _, f := range s.read {
		properties[f.key] = f.schema()
		if f.need {
			needed = append(needed, f.key)
		}
	}
	result := object{
		"type":              "object",
		"properties":        properties,
		"patternProperties": object{otherKeys: true},
	}
	if !s.open {
		result["additionalProperties"] = false
	}
	if len(needed) > 0 {
		result["required"] = needed
	}
	if more := s.conditions(); more != nil {
		result["allOf"] = more
	}
	return result
}

// conditions returns the rules between the keys of a section.
func (s keySection) conditions() []any {
	switch s.name {
	case "":
		return []any{
			object{"anyOf": []any{object{"required": []string{"instance_groups"}}, object{"required": []string{"jobs"}}}},
			notBoth("instance_groups", "jobs"),
			object{"anyOf": []any{object{"required": []string{"networks", "resource_pools"}}, object{"required": []string{"stemcells"}}}},
		}
	case "instance_groups[]":
		return []any{
			notBoth("jobs", "templates"),
			object{"anyOf": []any{object{"required": []string{"resource_pool"}}, object{"required": []string{"vm_type", "stemcell"}}}},
		}
	case "cloud_provider":
		return []any{object{"anyOf": []any{object{"required": []string{"template"}}, object{"required": []string{"templates"}}}}}
	case "releases[]", "resource_pools[].stemcell", "stemcells[]":
		return []any{when("url", object{"type": "string", "pattern": remoteURL}, object{"required": []string{"sha1"}})}
	case "networks[]":
		return []any{when("type", object{"const": typeManual}, object{
			"required":   []string{"subnets"},
			"properties": object{"subnets": object{"minItems": 1, "maxItems": 1}},
		})}
	case "variables[]":
		var list []any
		for _, kind := range gen.Types() {
			list = append(list, when("type", object{"const": kind},
				object{"properties": object{"options": orVariable(reference("options."+kind), false)}}))
		}
		return list
	}
	return nil
}

// when returns the rule that then applies if the key exists and its value
// matches the condition.
func when(key string, condition, then object) object {
	return object{"if": object{"required": []string{key}, "properties": object{key: condition}}, "then": then}
}

// notBoth returns the rule that only one of two keys may have values.
func notBoth(one, other string) object {
	some := object{"type": "array", "minItems": 1}
	return object{"not": object{
		"required":   []string{one, other},
		"properties": object{one: some, other: some},
	}}
}

// schema describes the value of a key.
func (f field) schema() object {
	var result object
	if f.list {
		list := object{"type": "array", "items": f.value(true)}
		if f.least > 0 {
			list["minItems"] = f.least
		}
		if f.most > 0 {
			list["maxItems"] = f.most
		}
		result = orVariable(list, f.need)
	} else {
		result = f.value(f.need)
	}
	result["description"] = f.about
	return result
}

// value describes one value of the field's form. Null counts as absent, unless
// the value is needed.
func (f field) value(need bool) object {
	text := func(pattern string) object {
		return object{"type": kinds(need, "string"), "pattern": `\(\(|` + pattern}
	}
	switch f.form {
	case formWord:
		return object{"type": kinds(need, "string", "number", "boolean"), "pattern": `\S`}
	case formChoice:
		return orVariable(object{"enum": f.values}, need)
	case formWhole:
		whole := object{"type": "integer", "minimum": f.least}
		if f.most > 0 {
			whole["maximum"] = f.most
		}
		return orVariable(whole, need, object{"type": "string", "pattern": groupedDigits})
	case formFlag:
		return orVariable(object{"type": "boolean"}, need, object{"type": "string", "pattern": booleanWords})
	case formDuration:
		return orVariable(object{"type": "number", "minimum": 0}, need, object{"type": "string", "pattern": duration})
	case formWatch:
		return orVariable(text(watchTime), need, object{"type": "integer", "minimum": 0})
	case formDigest:
		return text(digestText)
	case formAddress:
		return text(addressText)
	case formAddresses:
		one := object{"type": "string", "pattern": addressList}
		return orVariable(object{"anyOf": []any{one, object{"type": "array", "items": one}}}, need)
	case formPaths:
		one := object{"type": "string", "pattern": `\S`}
		return object{"anyOf": []any{one, object{"type": "array", "items": one}, object{"type": "null"}}}
	case formCIDR:
		return text(cidrText)
	case formMap:
		return orVariable(object{"type": "object"}, need)
	case formTags:
		tags := object{"type": []string{"string", "number", "boolean", "null"}}
		return orVariable(object{"type": "object", "additionalProperties": tags}, need)
	case formType:
		return orVariable(object{"enum": gen.Types()}, need)
	case formSection:
		return orVariable(reference(definitionName(f.of)), need)
	}
	return object{"type": kinds(need, "string", "number", "boolean")}
}

// kinds returns the types of a scalar, with null if it is not needed.
func kinds(need bool, types ...string) []string {
	if !need {
		types = append(types, "null")
	}
	return types
}

// orVariable describes a value, a variable in its place, other spellings of it,
// and null if it is not needed.
func orVariable(value object, need bool, spellings ...object) object {
	list := []any{value, reference("variable")}
	for _, spelling := range spellings {
		list = append(list, spelling)
	}
	if !need {
		list = append(list, object{"type": "null"})
	}
	return object{"anyOf": list}
}

// optionsSchema describes the options of a type of variable.
func optionsSchema(kind string) object {
	options, _ := gen.Options(kind)
	properties := object{}
	for _, o := range options {
		f := field{key: o.Name, about: o.Description, values: o.Values, most: o.Most}
		switch o.Form {
		case gen.Whole:
			f.form = formWhole
		case gen.Flag:
			f.form = formFlag
		case gen.Texts:
			f.list, f.most = true, 0
		}
		if o.Values != nil {
			f.form = formChoice
		}
		properties[o.Name] = f.schema()
	}
	return object{
		"type":                 "object",
		"properties":           properties,
		"patternProperties":    object{`\(\(`: true},
		"additionalProperties": false,
	}
}
