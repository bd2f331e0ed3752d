package deployment

import (
	"encoding/json"
	"slices"
	"strings"

	"bootstrap/deployment/record"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// Difference is a value that two versions of a deployment do not share.
type Difference struct {
	document.Difference
	Instance string // GROUP/INDEX; empty: the value is not of an instance
}

// Present returns the deployment at the place as it is.
func (p Place) Present() (*record.Version, error) {
	if p.One {
		st, found, err := file.Read(p.Path, p.Opts.Home)
		if err == nil && !found {
			err = &file.MissingError{Path: p.Name}
		}
		if err != nil {
			return nil, err
		}
		states, err := statesOfOne(st)
		return &record.Version{States: states}, err
	}
	v, err := archivedOf(p.Dir(), p.Opts).present()
	if err == nil && v == nil {
		_, err = record.Load(p.Dir())
	}
	return v, err
}

// Find returns one of the versions of the deployment at the place.
func (p Place) Find(list []*record.Version, serial int) (*record.Version, error) {
	return find(list, serial, p.Name)
}

// instanceDocument is an instance of a version in the form that is compared.
type instanceDocument struct {
	*record.Instance
	StateName string          `json:"state,omitempty"` // The place of the state is not compared.
	State     json.RawMessage `json:"recorded,omitempty"`
}

// Compare returns how two versions differ: their instances, with addresses and states, and
// the rules of their groups.
func Compare(before, after *record.Version) ([]Difference, error) {
	if before.Record == nil || after.Record == nil {
		return compareOne(before, after)
	}
	was, is := instancesOf(before), instancesOf(after)
	var list []Difference
	for _, id := range idsOf(before, after) {
		old, new := was[id], is[id]
		switch {
		case old == nil:
			list = append(list, Difference{document.Difference{Path: "instance", Kind: document.Added, New: summaryOf(after, new)}, new.Name()})
			continue
		case new == nil:
			list = append(list, Difference{document.Difference{Path: "instance", Kind: document.Removed, Old: summaryOf(before, old)}, old.Name()})
			continue
		}
		differences, err := diff(
			instanceDocument{Instance: old, State: before.States[id]},
			instanceDocument{Instance: new, State: after.States[id]})
		if err != nil {
			return nil, err
		}
		for _, d := range differences {
			if d.Path == "recorded.bootstrap.serial" { // Each write raises it.
				continue
			}
			d.Path = strings.TrimPrefix(d.Path, "recorded.")
			list = append(list, Difference{d, new.Name()})
		}
	}
	groups, err := diff(map[string]any{"instance_groups": before.Record.Groups}, map[string]any{"instance_groups": after.Record.Groups})
	for _, d := range groups {
		list = append(list, Difference{Difference: d})
	}
	return list, err
}

// compareOne returns how two versions of a single state differ.
func compareOne(before, after *record.Version) ([]Difference, error) {
	found, err := document.Diff(before.States[""], after.States[""])
	var list []Difference
	for _, d := range found {
		list = append(list, Difference{Difference: d})
	}
	return list, err
}

func diff(before, after any) ([]document.Difference, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	new, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return document.Diff(old, new)
}

func instancesOf(v *record.Version) map[string]*record.Instance {
	all := map[string]*record.Instance{}
	for _, in := range slices.Concat(v.Record.Instances, v.Record.Former) {
		all[in.ID] = in
	}
	return all
}

// idsOf returns the ids of the instances of versions, each once.
func idsOf(list ...*record.Version) (ids []string) {
	for _, v := range list {
		for _, in := range slices.Concat(v.Record.Instances, v.Record.Former) {
			if !slices.Contains(ids, in.ID) {
				ids = append(ids, in.ID)
			}
		}
	}
	return ids
}

// summaryOf lists the resources of an instance in a version: "VM vm-1, disk disk-2,
// 10.0.0.6".
func summaryOf(v *record.Version, in *record.Instance) string {
	var parts []string
	if data := v.States[in.ID]; data != nil {
		if st, err := file.Parse(data); err == nil {
			parts = st.Owned()
		}
	}
	var addresses []string
	for _, block := range in.Addresses {
		addresses = append(addresses, block.Addr().String())
	}
	slices.Sort(addresses)
	if parts = append(parts, addresses...); len(parts) == 0 {
		return "nothing is recorded"
	}
	return strings.Join(parts, ", ")
}
