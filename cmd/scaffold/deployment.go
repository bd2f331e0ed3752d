package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/catalog"
	"bootstrap/internal/printable"
	"bootstrap/manifest/document"
)

// wanted lists what the manifest of a Director needs and does not contain. The names are
// written as in YAML.
type wanted struct {
	Manifest, Lock             string
	Provider                   bool // it has no cloud_provider
	Releases, Stemcells        []string
	Zones, VMTypes, Extensions []string
	Disks, Vars                []string
	Networks                   []wantedNetwork
	ZoneList                   string
	static                     map[string][]string // addresses, by network
}

// wantedNetwork is a network of the cloud config.
type wantedNetwork struct{ Name, Range, Gateway, Static string }

// forManifest writes the files that the manifest of a Director needs for VMs on this
// machine: bootstrap.yml, a cloud config and the file of the cloud provider.
func (r *Request) forManifest(ctx context.Context) (*Result, error) {
	if r.Purpose != "" || r.Name != "" || r.Release != "" || r.Mirror != "" || r.Incomplete || len(r.Jobs)+len(r.Vars)+len(r.VarFiles) > 0 || r.SHA1 != "" {
		return nil, refuse("with --manifest, only --provider local and --force can be given: the manifest has its name and its releases, and bootstrap.yml takes the values")
	}
	if r.Provider != "" && r.Provider != "local" {
		return nil, refuse("--manifest is for VMs on this machine: leave --provider out, and write the cloud config and the file of the cloud provider for %s yourself (docs/deployments.md)", r.Provider)
	}
	r.Dir = filepath.Dir(r.Manifest)
	if err := r.refuseExisting(); err != nil {
		return nil, err
	}
	d, err := document.Evaluate(ctx, r.Manifest, document.Options{})
	if err != nil {
		return nil, err
	}
	w := wanted{Manifest: scalar(filepath.Base(r.Manifest)), Lock: filepath.Base(catalog.LockPath(r.Manifest)), static: map[string][]string{}}
	if err := d.Check(w.read); err != nil {
		return nil, err
	}
	for _, name := range d.MissingNames() {
		if !slices.Contains(d.Typed(), name) {
			w.Vars = append(w.Vars, scalar(name))
		}
	}
	files := []*output{}
	for _, name := range []string{"cloud.yml", "cpi.yml", "bootstrap.yml", ignored} {
		text := read("deployment")[name]
		switch _, err := os.Lstat(filepath.Join(r.Dir, name)); {
		case name == "cpi.yml" && !w.Provider, name == ignored && !errors.Is(err, fs.ErrNotExist):
			continue
		case name == ignored:
			text = read("machine")[ignored]
		}
		if text, err = filled(text, nil, w); err != nil {
			return nil, err
		}
		files = append(files, &output{name, text, 0o644})
	}
	if err := r.write(files); err != nil {
		return nil, err
	}
	return r.written(files, w), nil
}

// written returns the result.
func (r *Request) written(files []*output, w wanted) *Result {
	result := &Result{Dir: r.Dir, Missing: w.Vars}
	for _, f := range files {
		result.Files = append(result.Files, f.path)
	}
	if len(w.Releases) > 0 {
		result.Note = fmt.Sprintf("Put archives of %s into %s, or name another place in bootstrap.yml.", strings.Join(w.Releases, ", "), filepath.Join(r.Dir, "releases"))
	}
	at := ""
	if r.Dir != "." {
		at = " " + printable.ShellWord(r.Dir)
	}
	result.Next = []string{"bootstrap plan" + at, "bootstrap deploy" + at}
	return result
}

// read collects what a manifest needs.
func (w *wanted) read(top document.Value) error {
	if !top.IsMap() || !top.Get("instance_groups").IsList() {
		return refuse("the file is not a manifest of a Director: it has no list instance_groups")
	}
	for _, key := range []string{"resource_pools", "networks"} {
		if top.Get(key).HasKey() {
			return refuse("the manifest has %s of its own, so it needs no cloud config: bootstrap plan MANIFEST", key)
		}
	}
	w.Provider = !top.Get("cloud_provider").HasKey()
	w.Releases = sources(top.Get("releases"), "name")
	w.Stemcells = sources(top.Get("stemcells"), "os", "name")
	add := func(to *[]string, values ...document.Value) {
		for _, v := range values {
			name := v.Scalar()
			if strings.Contains(name, "((") { // the value of the variable is to be this one
				name = "default"
			}
			if name != "" && !slices.Contains(*to, scalar(name)) {
				*to = append(*to, scalar(name))
			}
		}
	}
	var networks []string
	for _, g := range items(top.Get("instance_groups")) {
		for _, zone := range items(g.Get("azs")) {
			if !strings.Contains(zone.Scalar(), "((") {
				add(&w.Zones, zone)
			}
		}
		add(&w.VMTypes, g.Get("vm_type"))
		add(&w.Extensions, items(g.Get("vm_extensions"))...)
		add(&w.Disks, g.Get("persistent_disk_type"))
		for _, n := range items(g.Get("networks")) {
			add(&networks, n.Get("name"))
			for _, ip := range items(n.Get("static_ips")) {
				w.static[scalar(n.Get("name").Scalar())] = append(w.static[scalar(n.Get("name").Scalar())], ip.Scalar())
			}
		}
	}
	if len(w.Zones) == 0 {
		w.Zones = []string{"z1"}
	}
	w.ZoneList = strings.Join(w.Zones, ", ")
	for i, name := range networks {
		w.Networks = append(w.Networks, w.network(name, i))
	}
	return nil
}

// network proposes a network: addresses of this machine, or the range of the manifest's
// static addresses.
func (w *wanted) network(name string, i int) wantedNetwork {
	n := wantedNetwork{Name: name, Range: fmt.Sprintf("127.%d.0.0/16", 64+i), Gateway: fmt.Sprintf("127.%d.0.1", 64+i)}
	var static []string
	for _, text := range w.static[name] {
		addr, err := netip.ParseAddr(text)
		if err != nil || !addr.Is4() {
			continue
		}
		if len(static) == 0 {
			block := netip.PrefixFrom(addr, 24).Masked()
			n.Range, n.Gateway = block.String(), block.Addr().Next().String()
		}
		static = append(static, text)
	}
	n.Static = strings.Join(static, ", ")
	return n
}

// sources returns the names of releases or stemcells that have no URL, by the first of the
// keys that they have.
func sources(list document.Value, keys ...string) []string {
	var names []string
	for _, item := range items(list) {
		if item.Get("url").Scalar() != "" {
			continue
		}
		for _, key := range keys {
			if name := item.Get(key).Scalar(); name != "" {
				if !slices.Contains(names, scalar(name)) {
					names = append(names, scalar(name))
				}
				break
			}
		}
	}
	return names
}

// items returns the items of a list; of something else, none.
func items(list document.Value) []document.Value {
	if !list.IsList() {
		return nil
	}
	return list.Items()
}
