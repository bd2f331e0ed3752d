package templates

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"bootstrap/artifact"
)

// unknownIn reports whether a value contains a text or a key that is not known yet.
func (c *Context) unknownIn(value any) bool {
	if len(c.Unknown) == 0 {
		return false
	}
	switch v := value.(type) {
	case string:
		return c.Unknown[v]
	case []any:
		return slices.ContainsFunc(v, c.unknownIn)
	case map[string]any:
		for key, item := range v {
			if c.Unknown[key] || c.unknownIn(item) {
				return true
			}
		}
	case ordered:
		return slices.ContainsFunc(v, func(e entry) bool { return c.Unknown[e.key] || c.unknownIn(e.value) })
	}
	return false
}

// unknownShape reports whether it is not known of which type a value is, or which keys it has.
func (c *Context) unknownShape(value any) bool {
	switch v := value.(type) {
	case string:
		return c.Unknown[v]
	case map[string]any:
		for key := range v {
			if c.Unknown[key] {
				return true
			}
		}
	}
	return false
}

// cause is an error of a schema that no other error explains.
type cause struct {
	*jsonschema.ValidationError
	// conditional is true if the schema demands it only because of another value.
	conditional bool
}

// conditions are the parts of a schema that apply or not, because of other values at the same
// place.
var conditions = regexp.MustCompile(`#.*/(then|else|dependentSchemas|dependencies|unevaluatedProperties|unevaluatedItems)(/|$)`)

// leaves returns the causes of an error, without the keywords that only contain other
// keywords.
func leaves(e *jsonschema.ValidationError, conditional bool) []cause {
	conditional = conditional || conditions.MatchString(e.SchemaURL)
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains, *kind.MinContains, *kind.PropertyNames, *kind.ContentSchema:
		return []cause{{e, conditional}}
	}
	if len(e.Causes) == 0 {
		return []cause{{e, conditional}}
	}
	var list []cause
	for _, c := range e.Causes {
		list = append(list, leaves(c, conditional)...)
	}
	return list
}

// doubtsCause reports whether a cause may disappear when the unknown values are known. What a
// schema demands of a value depends on nothing outside of this value, except for conditions.
func (c *Context) doubtsCause(of cause, properties map[string]any) bool {
	if len(c.Unknown) == 0 {
		return false
	}
	if of.conditional && c.unknownIn(properties) || slices.ContainsFunc(of.InstanceLocation, func(key string) bool { return c.Unknown[key] }) {
		return true
	}
	_, value := named(properties, of.InstanceLocation)
	switch of.ErrorKind.(type) {
	case *kind.Type, *kind.Required, *kind.DependentRequired, *kind.AdditionalProperties, *kind.FalseSchema,
		*kind.MinProperties, *kind.MaxProperties, *kind.MinItems, *kind.MaxItems:
		return c.unknownShape(value)
	}
	return c.unknownIn(value)
}

// order sorts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// doubts reports whether the failure of a template may disappear when the unknown values are
// known: whether the template can read one of them. class is Ruby's class of the error.
func (j *Job) doubts(template []byte, class, id string) bool {
	c := &j.Context
	if len(c.Unknown) == 0 {
		return false
	}
	code := rubyOf(template)
	if class == "SyntaxError" && !strings.Contains(code, "eval") {
		return false
	}
	facts := j.facts(id)
	names, anything := reads(code)
	if anything && (c.unknownIn(facts) || withoutAddress(facts["links"])) {
		return true
	}
	if strings.Contains(code, "link") && (c.unknownIn(facts["links"]) || withoutAddress(facts["links"])) {
		return true
	}
	for _, key := range []string{"links", "default_properties", "global_properties", "cluster_properties", "job_properties"} {
		delete(facts, key)
	}
	if strings.Contains(code, "spec") && c.unknownIn(facts) {
		return true
	}
	source := c.source()
	return slices.ContainsFunc(j.Properties, func(p artifact.Property) bool {
		read := slices.ContainsFunc(names, func(name string) bool { return related(name, p.Name) })
		return read && c.unknownIn(find(source, p.Name))
	})
}

// withoutAddress reports whether an instance of a link has no address yet.
func withoutAddress(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, withoutAddress)
	case map[string]any:
		instances, _ := v[linkInstances].([]any)
		for _, one := range instances {
			if m, ok := one.(map[string]any); ok && (m["address"] == nil || m["address"] == "") {
				return true
			}
		}
		for _, item := range v {
			if withoutAddress(item) {
				return true
			}
		}
	}
	return false
}

const (
	oneName  = `(?:"[^"#\\]*"|'[^'\\]*')`
	allNames = oneName + `(?:\s*,\s*` + oneName + `)*`
)

var (
	tag      = regexp.MustCompile(`(?s)<%.*?%>`)
	nameText = regexp.MustCompile(oneName)
	// namedCalls are those that read properties by names in quotes; calls are all that read
	// properties.
	namedCalls = regexp.MustCompile(`\bp\s*\(?\s*(?:` + oneName + `|\[\s*` + allNames + `\s*\])\s*(?:[,)%;\n]|$)|\b(?:else_)?if_p\s*\(?\s*` + allNames + `\s*(?:\)|do\b|\{)`)
	calls      = regexp.MustCompile(`\b(?:p|if_p|else_if_p)\b`)
	specUses   = regexp.MustCompile(`\bspec\b(?:\.(\w+))?`)
	// reflective are words by which a template may read any property.
	reflective = regexp.MustCompile(`\b(?:\w*propert\w*|\w*eval|\w*send\w*|\w*methods?|binding|instance_\w+|self|Proc|proc|lambda)\b`)
)

// rubyOf returns the Ruby code of a template.
func rubyOf(template []byte) string {
	return string(bytes.Join(tag.FindAll(template, -1), []byte("\n")))
}

// reads returns the names of the properties that the code of a template reads; anything is
// true if it may read others, too.
func reads(code string) (names []string, anything bool) {
	for _, call := range namedCalls.FindAllString(code, -1) {
		for _, text := range nameText.FindAllString(call, -1) {
			names = append(names, text[1:len(text)-1])
		}
	}
	if calls.MatchString(namedCalls.ReplaceAllString(code, "")) || reflective.MatchString(code) {
		return names, true
	}
	for _, use := range specUses.FindAllStringSubmatch(code, -1) {
		if slices.Contains([]string{"", "to_h", "to_s", "to_json", "inspect", "dig", "each_pair", "marshal_dump"}, use[1]) {
			return names, true
		}
	}
	return names, false
}
