package record

import (
	"slices"
	"strings"
)

// shortID is how many characters of an id name an instance at least.
const shortID = 4

// first names the first instance of a group to change: the one that bootstraps it, or else the
// one with the lowest index.
const first = "first"

// Find returns the instance that a person names: GROUP/INDEX, GROUP/ID, GROUP/first, or a GROUP
// of one instance.
func (r *Record) Find(name string) (*Instance, bool) {
	list := r.named(name)
	if len(list) != 1 {
		return nil, false
	}
	return list[0], true
}

// Select returns the instances that a person names, in the order of the record: the names
// are separated by commas, and each is GROUP, GROUP/INDEX, GROUP/ID or GROUP/first. An id may be
// shortened to its first characters if no other id of the group begins so. Without names
// it returns all. unknown is a name that selects no instance.
func (r *Record) Select(names string) (list []*Instance, unknown string) {
	if names == "" {
		return slices.Clone(r.Instances), ""
	}
	chosen := map[*Instance]bool{}
	for name := range strings.SplitSeq(names, ",") {
		found := r.named(name)
		if len(found) == 0 {
			return nil, name
		}
		for _, in := range found {
			chosen[in] = true
		}
	}
	for _, in := range r.Instances {
		if chosen[in] {
			list = append(list, in)
		}
	}
	return list, ""
}

// named returns the instances of one name.
func (r *Record) named(name string) (list []*Instance) {
	group, which, one := strings.Cut(name, "/")
	var short []*Instance
	for _, in := range r.Instances {
		switch {
		case in.Group != group:
		case !one, which == in.ID, name == in.Name():
			list = append(list, in)
		case isShortID(which) && strings.HasPrefix(in.ID, which):
			short = append(short, in)
		}
	}
	switch {
	case len(list) == 0 && len(short) == 1:
		return short
	case which == first:
		return r.firstOf(group)
	}
	return list
}

// firstOf returns the first instance of a group that is not to be deleted.
func (r *Record) firstOf(group string) []*Instance {
	var lowest *Instance
	for _, in := range r.Instances {
		switch {
		case in.Group != group || in.Going != "":
		case in.Bootstrap:
			return []*Instance{in}
		case lowest == nil || in.Index < lowest.Index:
			lowest = in
		}
	}
	if lowest == nil {
		return nil
	}
	return []*Instance{lowest}
}

// isShortID reports whether a text may be the beginning of an id, and is no index.
func isShortID(text string) bool {
	return len(text) >= shortID && (len(text) >= len("00000000") || strings.ContainsAny(text, "abcdef"))
}

// States returns the names that the record has for the states of instances and former
// instances.
func (r *Record) States() []string {
	var list []string
	for _, in := range slices.Concat(r.Instances, r.Former) {
		list = append(list, in.State)
	}
	return list
}

// Names returns the names of instances for people.
func Names(list []*Instance) []string {
	var names []string
	for _, in := range list {
		names = append(names, in.Name())
	}
	return names
}
