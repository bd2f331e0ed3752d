package manifest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"bootstrap/manifest/document"
)

// scoped reads the manifest of a deployment again for an instance, with its values of
// variables with scope: instance.
type scoped struct {
	mu       sync.Mutex
	document *document.Document
	blank    reader // without a manifest
	warnings []document.Problem
}

// Identify returns the manifest of one instance of a group, in a zone, with its addresses
// by network, and with its values of variables with scope: instance. Values that it lacks
// are those of a plan; its Generated names them.
func (d *Deployment) Identify(ctx context.Context, g *Group, who Identity, zone string, blocks map[string]netip.Prefix) (*Manifest, error) {
	if d.scoped == nil {
		return g.Identify(who, zone, blocks)
	}
	own, err := d.scoped.read(ctx, who.of(g.Name))
	if err != nil {
		return nil, err
	}
	for i := range own.Groups {
		if own.Groups[i].Name == g.Name {
			m := own.Groups[i].Manifest
			m.Own = m.Generated
			m.Generated = append(d.Common.Generated[:len(d.Common.Generated):len(d.Common.Generated)], m.Own...)
			return own.Groups[i].Identify(who, zone, blocks)
		}
	}
	return nil, fmt.Errorf("cannot read the instance group %s with the values of the instance %s", g.Name, who.of(g.Name).Name)
}

// WorkerOf returns the manifest of a compilation VM of an instance group, with its
// values of variables with scope: instance.
func (d *Deployment) WorkerOf(ctx context.Context, group string, who Identity) (*Manifest, error) {
	own := d
	if d.scoped != nil {
		var err error
		if own, err = d.scoped.read(ctx, who.of(CompilationGroup)); err != nil {
			return nil, err
		}
	}
	for i := range own.Groups {
		of := own.Groups[i].Manifest
		if own.Groups[i].Name == group && of.Compilation.Worker != nil {
			m := *of.Compilation.Worker
			m.Identity = &who
			return &m, nil
		}
	}
	return nil, fmt.Errorf("cannot read the settings of a compilation VM of the instance group %s", group)
}

// Member is an instance of a group.
type Member struct {
	Group string
	Identity
}

// Values returns the instance in the form that package document takes.
func (m Member) Values() document.Instance { return m.of(m.Group) }

// GenerateFor generates the values that instances lack of variables with scope: instance,
// if the manifest was read to generate values. It returns the names of the variables, and
// of the instances.
func (d *Deployment) GenerateFor(ctx context.Context, list []Member) (names, instances []string, err error) {
	if d.scoped == nil {
		return nil, nil, nil
	}
	of := make([]document.Instance, len(list))
	for i, one := range list {
		of[i] = one.Values()
	}
	d.scoped.mu.Lock()
	defer d.scoped.mu.Unlock()
	return d.scoped.document.GenerateFor(ctx, of)
}

// Forget removes the values of an instance from the vars store.
func (d *Deployment) Forget(ctx context.Context, m Member) error {
	if d.scoped == nil {
		return nil
	}
	d.scoped.mu.Lock()
	defer d.scoped.mu.Unlock()
	return d.scoped.document.Forget(ctx, m.Values())
}

// Record returns what is needed to read the manifest again, with the values of its variables
// and those of its instances, which are secrets.
func (d *Deployment) Record() (*document.Recorded, error) {
	if d.scoped != nil {
		d.scoped.mu.Lock()
		defer d.scoped.mu.Unlock()
	}
	return d.Common.Record()
}

// OwnWarnings returns the warnings about values of the instances that were identified.
func (d *Deployment) OwnWarnings() []document.Problem {
	if d.scoped == nil {
		return nil
	}
	d.scoped.mu.Lock()
	defer d.scoped.mu.Unlock()
	list := slices.Clone(d.scoped.warnings)
	slices.SortFunc(list, func(a, b document.Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// HasScopes reports whether a variable has scope: instance. Then the groups' manifests do
// not have its values, and are not those of any instance.
func (d *Deployment) HasScopes() bool { return d.scoped != nil }

// Scoped returns the first variable with scope: instance in a value of a group's manifest;
// empty: there is none.
func (d *Deployment) Scoped(value any) string {
	switch v := value.(type) {
	case string:
		if d.scoped != nil {
			return d.scoped.document.Scoped(v)
		}
	case []any:
		for _, item := range v {
			if name := d.Scoped(item); name != "" {
				return name
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if name := d.Scoped(v[key]); name != "" {
				return name
			}
		}
	}
	return ""
}

// StoreExists reports whether the vars store existed when it was last read.
func (d *Deployment) StoreExists() bool { return d.scoped != nil && d.scoped.document.StoreExists() }

// of returns the instance in the form that package document takes.
func (who Identity) of(group string) document.Instance {
	return document.Instance{Group: group, ID: who.ID, Name: fmt.Sprintf("%s/%d", group, who.Index), Plain: who.First, Hosts: who.Hosts}
}

// read reads the deployment with the values of an instance.
func (s *scoped) read(ctx context.Context, of document.Instance) (*Deployment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := &Deployment{}
	r := s.blank
	r.manifest, r.many = &Manifest{}, own
	d, err := s.document.For(ctx, of, r.read)
	if err != nil {
		return nil, err
	}
	m, err := r.finish(d)
	if err != nil {
		return nil, err
	}
	own.complete(m)
	for _, w := range m.Warnings {
		if !slices.Contains(s.document.Warnings, w) && !slices.Contains(s.warnings, w) {
			s.warnings = append(s.warnings, w)
		}
	}
	return own, nil
}
