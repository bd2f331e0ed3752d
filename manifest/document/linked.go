package document

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bootstrap/manifest/gen"
)

// LinkWish is a link that a certificate of the variables section consumes, so that it is
// valid for the names of the link.
type LinkWish struct {
	Variable string
	From     string // name of the link
	Type     string
	Wildcard bool // true: a name that is valid for all instances
}

// LinkNames are the names and addresses of a link.
type LinkNames struct {
	Names []string
	Wrong string // why there are none; empty: there are
}

// The keys of consumes in a variable: where the certificate gets the names of the link.
const (
	alternativeName = "alternative_name"
	commonName      = "common_name"
)

// linked are the names that a certificate gets from links.
type linked struct {
	wishes map[string]LinkWish // by key of consumes
	names  map[string][]string // nil: unknown
}

// readLinks reads consumes of all variables, and asks for the names of the links.
func (e *evaluation) readLinks(ctx context.Context) error {
	var wishes []LinkWish
	var set []func(LinkNames)
	wanted := e.opts.CheckLinks
	for _, def := range e.distinct() {
		place := def.place.Get("consumes")
		if place.IsNull() {
			continue
		}
		if def.each {
			place.FailKey("cannot be given together with scope: instance: such a certificate is for the addresses of one instance")
			continue
		}
		def.linked = &linked{wishes: def.readConsumes(place)}
		wanted = wanted || e.given(def.name) == nil && e.opts.Generate == Write
		for _, key := range slices.Sorted(maps.Keys(def.linked.wishes)) {
			wishes = append(wishes, def.linked.wishes[key])
			set = append(set, func(got LinkNames) {
				if got.Wrong != "" {
					place.Get(key).Fail("%s", got.Wrong)
					def.state = failed
					return
				}
				if def.linked.names == nil {
					def.linked.names = map[string][]string{}
				}
				def.linked.names[key] = got.Names
			})
		}
	}
	if len(wishes) == 0 || !wanted || e.opts.LinkNames == nil || e.problems.failed() {
		return nil
	}
	names, err := e.opts.LinkNames(ctx, wishes)
	for i, got := range names {
		set[i](got)
	}
	return err
}

// readConsumes reads the links that a certificate consumes, by key.
func (def *definition) readConsumes(place Value) map[string]LinkWish {
	wishes := map[string]LinkWish{}
	switch {
	case def.kind != "certificate":
		place.FailKey("only a certificate can consume links, but the type of the variable is %q", Literal(def.kind))
		return nil
	case place.node.kind != mapKind:
		place.Fail("must be a map such as {alternative_name: {from: LINK}}, not %s", place.node.describe())
		return nil
	}
	for _, e := range place.node.entries {
		key := scalarText(e.key)
		item := place.Get(key)
		if key != alternativeName && key != commonName {
			item.FailKey("is unknown: a certificate can consume %s and %s", Literal(alternativeName), Literal(commonName))
			continue
		}
		w := LinkWish{Variable: def.name, From: key, Type: "address"}
		if item.IsNull() {
			wishes[key] = w
			continue
		}
		if item.node.kind != mapKind {
			item.Fail("must be a map such as {from: LINK}, not %s", item.node.describe())
			continue
		}
		for _, e := range item.node.entries {
			name := scalarText(e.key)
			value := item.Get(name)
			switch name {
			case "from", "link_type":
				text := value.raw()
				if text == "" {
					value.Fail("must be a text")
				} else if name == "from" {
					w.From = text
				} else {
					w.Type = text
				}
			case "properties":
				w.Wildcard = value.Get("wildcard").LenientFlag(false)
			default:
				value.FailKey("is unknown: the keys are from, link_type and properties")
			}
		}
		wishes[key] = w
	}
	return wishes
}

// unlinked reports whether the names of a link are unknown that the certificate needs.
func (def *definition) unlinked() bool {
	return def.linked != nil && len(def.linked.names) < len(def.linked.wishes)
}

// addLinks adds the names of the links to the options of a certificate. Options that
// depend on unknown names are removed: they cannot be compared with the value.
func (def *definition) addLinks(wanted *gen.Definition) {
	if def.linked == nil {
		return
	}
	wanted.Options = maps.Clone(wanted.Options)
	if wanted.Options == nil {
		wanted.Options = map[string]any{}
	}
	if def.unlinked() {
		delete(wanted.Options, "alternative_names")
		return
	}
	if names := def.linked.names[alternativeName]; len(names) > 0 {
		list, ok := wanted.Options["alternative_names"].([]any)
		if wanted.Options["alternative_names"] != nil && !ok {
			return // gen reports what is wrong
		}
		list = slices.Clone(list)
		for _, name := range names {
			if !slices.Contains(list, any(name)) {
				list = append(list, name)
			}
		}
		wanted.Options["alternative_names"] = list
	}
	if names := def.linked.names[commonName]; len(names) > 0 && wanted.Options[commonName] == nil {
		wanted.Options[commonName] = names[0]
	}
}

// refuseUnlinked reports, while values are generated, that the names of the links are
// unknown.
func (def *definition) refuseUnlinked() {
	var from []string
	for _, key := range slices.Sorted(maps.Keys(def.linked.wishes)) {
		from = append(from, def.linked.wishes[key].From)
	}
	from = slices.Compact(from)
	def.place.Get("consumes").FailKey("the value of %q needs the addresses of the link %s, which only bootstrap deploy knows: it generates the value, and a new one with update_mode: converge, or if you remove the old one from the vars store", Literal(def.name), Literal(strings.Join(from, ", ")))
	def.state = failed
}
