package deployer

import (
	"context"
	"slices"

	"bootstrap/artifact"
	"bootstrap/deployer/instance"
)

// trust decides which compiled packages of the cache a deployment uses, and who may
// use those that its VM compiles. Root of a VM can change what its agent compiles:
//
//   - what the VMs of a deployment compiled is for this deployment, and for its group
//     if a person has named one;
//   - what a new VM compiled before any job ran on it is also for others, if these
//     compile everything that was compiled on that VM before: a packaging script can
//     change what is compiled after it.
type trust struct {
	owners []string                     // owners are the deployment, and its group if it has one
	own    map[string]bool              // source of each package that the deployment compiles
	fresh  bool                         // no job has run on the VM, and the VM has used nothing that only owners trust
	after  []string                     // sources of the packages that the VM has compiled
	found  map[string]artifact.Compiled // cached packages without an owner, by name
	theirs map[string]bool              // cached packages of an owner, by name
}

func newTrust(owners []string, order []instance.Located) trust {
	t := trust{owners: owners, own: map[string]bool{}, found: map[string]artifact.Compiled{}, theirs: map[string]bool{}}
	for _, l := range order {
		t.own[source(l.Package)] = true
	}
	return t
}

// owners returns the owners of packages that the deployment's VMs compile.
func (pk *packages) owners() []string {
	list := []string{"deployment " + pk.rec.Installation.String()}
	if group := pk.rec.Env.PackagesGroup; group != "" {
		list = append(list, "group "+group)
	}
	return list
}

// source identifies the content from which a package is compiled.
func source(p *artifact.Package) string {
	return p.Name + "/" + p.Fingerprint + "/" + p.Digest
}

// sourceOf identifies the content of a stemcell; empty: that is unknown. A VM of the
// local stemcell has this machine's files.
func sourceOf(sc *artifact.Stemcell) string {
	if slices.Contains(sc.Formats, "local") {
		return "local"
	}
	return sc.Digest
}

// find looks for a package in the cache.
func (t *trust) find(ctx context.Context, store *artifact.Store, key artifact.CompiledKey) (artifact.Compiled, bool, error) {
	if !slices.Contains(key.Sources, "") {
		c, ok, err := store.Compiled(ctx, key)
		if err != nil || ok && !slices.ContainsFunc(c.After, func(s string) bool { return !t.own[s] }) {
			return c, ok, err
		}
	}
	for _, owner := range t.owners {
		key.Owner = owner
		c, ok, err := store.Compiled(ctx, key)
		if ok || err != nil {
			return c, ok, err
		}
	}
	return artifact.Compiled{}, false, nil
}

// cached records how the cache has a package.
func (t *trust) cached(name string, c artifact.Compiled) {
	if c.Owned {
		t.theirs[name] = true
	} else {
		t.found[name] = c
	}
}

// compiles records that the VM will compile a package.
func (t *trust) compiles(p *artifact.Package, dependencies []string) (after []string) {
	for _, name := range dependencies {
		t.fresh = t.fresh && !t.theirs[name]
		t.after = append(t.after, t.found[name].After...)
	}
	after = slices.Compact(slices.Sorted(slices.Values(t.after)))
	t.after = append(after, source(p))
	return slices.Clone(after)
}

// keys returns the keys under which the cache stores packages that the VM compiles.
func (t *trust) keys(key artifact.CompiledKey) []artifact.CompiledKey {
	var list []artifact.CompiledKey
	if t.fresh && !slices.Contains(key.Sources, "") {
		list = append(list, key)
	}
	for _, owner := range t.owners {
		key.Owner = owner
		list = append(list, key)
	}
	return list
}

// waits returns the key with which runs wait for each other if they compile the same
// package for the same VMs.
func (t *trust) waits(key artifact.CompiledKey) artifact.CompiledKey {
	if !t.fresh {
		key.Owner = t.owners[len(t.owners)-1]
	}
	return key
}
