package manifest

import (
	"bootstrap/manifest/gen"
	"bootstrap/manifest/keys"
)

// Schema returns the JSON Schema (draft 2020-12) of a manifest, for editors and
// other tools. It describes a manifest with operations applied and variables not
// filled in: ((name)) is allowed in place of any value. Only Load checks values
// that depend on other parts of the manifest, such as names and ranges.
func Schema() ([]byte, error) {
	definitions := keys.Object{}
	for _, kind := range gen.Types() {
		definitions["options."+kind] = optionsSchema(kind)
	}
	return keys.Schema{
		Title:       "Deployment manifest",
		Description: "One VM, what runs on it, and the CPI that makes it.",
		Table:       sections,
		Rules:       rules,
		Definitions: definitions,
	}.JSON()
}

// remoteURL is the pattern of URLs that need a digest.
const remoteURL = `^https?://`

// rules returns the rules between the keys of a section.
func rules(section string) []any {
	switch section {
	case "":
		return []any{
			keys.Object{"anyOf": []any{keys.Object{"required": []string{"instance_groups"}}, keys.Object{"required": []string{"jobs"}}}},
			keys.NotBoth("instance_groups", "jobs"),
			keys.Object{"anyOf": []any{keys.Object{"required": []string{"networks", "resource_pools"}}, keys.Object{"required": []string{"stemcells"}}}},
		}
	case "instance_groups[]":
		return []any{
			keys.NotBoth("jobs", "templates"),
			keys.Object{"anyOf": []any{keys.Object{"required": []string{"resource_pool"}}, keys.Object{"required": []string{"vm_type", "stemcell"}}}},
		}
	case "cloud_provider":
		return []any{keys.Object{"anyOf": []any{keys.Object{"required": []string{"template"}}, keys.Object{"required": []string{"templates"}}}}}
	case "releases[]", "resource_pools[].stemcell", "stemcells[]":
		return []any{keys.When("url", keys.Object{"type": "string", "pattern": remoteURL}, keys.Object{"required": []string{"sha1"}})}
	case "networks[]":
		return []any{keys.When("type", keys.Object{"const": typeManual}, keys.Object{
			"required":   []string{"subnets"},
			"properties": keys.Object{"subnets": keys.Object{"minItems": 1, "maxItems": 1}},
		})}
	case "variables[]":
		var list []any
		for _, kind := range gen.Types() {
			list = append(list, keys.When("type", keys.Object{"const": kind},
				keys.Object{"properties": keys.Object{"options": keys.OrVariable(keys.Reference("options."+kind), false)}}))
		}
		return list
	}
	return nil
}

// optionsSchema describes the options of a type of variable.
func optionsSchema(kind string) keys.Object {
	options, _ := gen.Options(kind)
	properties := keys.Object{}
	for _, o := range options {
		f := keys.Field{Key: o.Name, About: o.Description, Values: o.Values, Most: o.Most}
		switch o.Form {
		case gen.Whole:
			f.Form = keys.Whole
		case gen.Flag:
			f.Form = keys.Flag
		case gen.Texts:
			f.List, f.Most = true, 0
		}
		if o.Values != nil {
			f.Form = keys.Choice
		}
		properties[o.Name] = f.Schema()
	}
	return keys.Object{
		"type":                 "object",
		"properties":           properties,
		"patternProperties":    keys.Object{`\(\(`: true},
		"additionalProperties": false,
	}
}
