package installation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/artifact/packaging"
)

// node is a package with everything that influences its compiled files.
type node struct {
	*artifact.Package
	release string
	deps    []*node          // direct dependencies, by name
	all     map[string]*node // all dependencies, by name
	key     string           // SHA-256 in hex over the package, its dependencies and the machine
}

// id returns the name of the package's folder in the cache.
func (n *node) id() string { return n.Name + "-" + n.key[:32] }

// title returns the package's name for messages.
func (n *node) title() string {
	return fmt.Sprintf("package '%s' of release '%s'", n.Name, n.release)
}

// graph contains the packages to compile and those to install.
type graph struct {
	order     []*node          // in this order: dependencies first, then as the jobs and the names are ordered
	installed map[string]*node // packages to install, by name
}

// walk creates nodes from the packages of releases.
type walk struct {
	host  platform
	nodes map[string]*node // all packages, by release and name
	order []*node
}

// resolve finds the packages of the jobs and their dependencies, transitively. Two
// releases may contain different packages with the same name: each of these is compiled
// with the packages of its own release, and the one that a job needs is installed.
func resolve(jobs []Job, host platform) (*graph, error) {
	w := &walk{host: host, nodes: map[string]*node{}}
	g := &graph{installed: map[string]*node{}}
	var asked []*node
	for _, job := range jobs {
		for _, name := range slices.Sorted(slices.Values(job.Packages)) {
			n, err := w.visit(job.Release, name, fmt.Sprintf("job '%s'", job.Name), nil)
			if err != nil {
				return nil, fmt.Errorf("cannot install the CPI: %w", err)
			}
			if other := g.installed[name]; other != nil && other.key != n.key {
				return nil, fmt.Errorf("cannot install the CPI: its jobs need two different packages '%s', of the releases '%s' and '%s'",
					name, other.release, n.release)
			}
			g.installed[name] = n
			asked = append(asked, n)
		}
	}
	for _, n := range asked {
		for _, name := range slices.Sorted(maps.Keys(n.all)) {
			if g.installed[name] == nil {
				g.installed[name] = n.all[name]
			}
		}
	}
	seen := map[string]bool{}
	for _, n := range w.order {
		if !seen[n.key] {
			seen[n.key] = true
			g.order = append(g.order, n)
		}
	}
	return g, nil
}

// visit returns the node of a package; path contains the packages that led to
// it.
func (w *walk) visit(release *artifact.Release, name, user string, path []string) (*node, error) {
	if i := slices.Index(path, name); i >= 0 {
		return nil, fmt.Errorf("packages of release '%s' depend on each other in a circle: '%s'",
			release.Name, strings.Join(append(path[i:], name), "' -> '"))
	}
	id := release.Name + "\x00" + release.Version + "\x00" + name
	if n := w.nodes[id]; n != nil {
		return n, nil
	}
	p := release.Package(name)
	if p == nil {
		return nil, fmt.Errorf("%s needs package '%s', which release '%s' does not have", user, name, release.Name)
	}
	if name == "" || name == "." || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return nil, fmt.Errorf("release '%s' has a package '%s', whose name cannot be a file name", release.Name, name)
	}
	n := &node{Package: p, release: release.Name, all: map[string]*node{}}
	if p.Compiled() && !w.host.runs(p.Stemcell) {
		return nil, fmt.Errorf("%s was compiled for %s, but this machine is %s: use a source release of the CPI, or one compiled for this system",
			n.title(), p.Stemcell, w.host)
	}
	for _, dep := range slices.Sorted(slices.Values(p.Dependencies)) {
		d, err := w.visit(release, dep, fmt.Sprintf("package '%s'", name), append(slices.Clip(path), name))
		if err != nil {
			return nil, err
		}
		n.deps = append(n.deps, d)
		n.all[dep] = d
		maps.Copy(n.all, d.all)
	}
	n.key = n.hash(w.host)
	w.nodes[id] = n
	w.order = append(w.order, n)
	return n, nil
}

// hash covers everything that influences the compiled package. The fingerprint
// alone is not enough: a release states it itself.
func (n *node) hash(host platform) string {
	sum := sha256.New()
	add := func(parts ...string) {
		for _, part := range parts {
			fmt.Fprintf(sum, "%d:%s,", len(part), part)
		}
	}
	add("1", runtime.GOOS, runtime.GOARCH, n.Name, n.Fingerprint, n.Digest, n.Stemcell)
	if !n.Compiled() {
		add(host.String(), packaging.DefaultPath())
		for _, dep := range n.deps {
			add(dep.key)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
