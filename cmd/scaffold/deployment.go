package scaffold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"bootstrap/catalog"
	"bootstrap/internal/printable"
	"bootstrap/manifest/document"
)

// wanted lists what the manifest of a Director needs and does not contain. The names are
// written as in YAML.
type wanted struct {
	Manifest, Lock             string
	Cloud, CPI                 string // names of the cloud config and the file of the cloud provider
	Provider                   bool   // it has no cloud_provider
	Releases, Stemcells        []string
	Zones, VMTypes, Extensions []string
	Disks, Vars                []string
	Given                      map[string]string // values of variables, which are names in these files
	Networks                   []wantedNetwork
	ZoneList                   string
	Own                        bool                // the networks are not this machine's
	static                     map[string][]string // addresses, by network
	instances                  int
}

// wantedNetwork is a network of the cloud config.
type wantedNetwork struct{ Name, Range, Gateway, Static, Kind string }

// Values for variables that are names of what the files define.
const (
	anyName  = "default"
	stemcell = "ubuntu-noble"
)

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
	w := wanted{Manifest: scalar(filepath.Base(r.Manifest)), Lock: filepath.Base(catalog.LockPath(r.Manifest)), Given: map[string]string{}, static: map[string][]string{}}
	if err := d.Check(func(top document.Value) error { return w.read(top, r.OwnNetwork) }); err != nil {
		return nil, err
	}
	for _, name := range d.MissingNames() {
		if slices.Contains(d.Typed(), name) {
			delete(w.Given, name)
		} else if w.Given[name] == "" {
			w.Vars = append(w.Vars, scalar(name))
		}
	}
	var used []string
	w.Cloud, used = r.choose(ctx, "cloud.yml", w.fitsCloud, used)
	w.CPI, used = r.choose(ctx, "cpi.yml", func(top document.Value) bool { return top.Get("cloud_provider").IsMap() }, used)
	files := []*output{}
	for _, name := range []string{"cloud.yml", "cpi.yml", "bootstrap.yml", ignored} {
		text, path := read("deployment")[name], name
		_, err := os.Lstat(filepath.Join(r.Dir, name))
		switch {
		case name == "cpi.yml" && !w.Provider, name == ignored && !errors.Is(err, fs.ErrNotExist):
			continue
		case name == "cloud.yml":
			path = w.Cloud
		case name == "cpi.yml":
			path = w.CPI
		case name == ignored:
			text = read("machine")[ignored]
		}
		if slices.Contains(used, path) {
			continue
		}
		if text, err = filled(text, nil, w); err != nil {
			return nil, err
		}
		files = append(files, &output{path, text, 0o644})
	}
	if err := r.write(files); err != nil {
		return nil, err
	}
	if !w.Provider {
		used = slices.DeleteFunc(used, func(name string) bool { return name == w.CPI })
	}
	return r.written(files, w, used), nil
}

// choose returns the name for a file that may exist: an existing one that fits is used, and nothing
// overwrites another one, which --force would.
func (r *Request) choose(ctx context.Context, name string, fits func(document.Value) bool, used []string) (string, []string) {
	path := filepath.Join(r.Dir, name)
	if _, err := os.Lstat(path); err != nil || r.Force {
		return name, used
	}
	fit := false
	if d, err := document.Evaluate(ctx, path, document.Options{}); err == nil {
		_ = d.Check(func(top document.Value) error {
			fit = top.IsMap() && fits(top)
			return nil
		})
	}
	if fit {
		return name, append(used, name)
	}
	return strings.TrimSuffix(name, ".yml") + "-local.yml", used
}

// fitsCloud reports whether a cloud config has everything that the manifest names.
func (w *wanted) fitsCloud(top document.Value) bool {
	var networks []string
	for _, n := range w.Networks {
		networks = append(networks, n.Name)
	}
	for key, names := range map[string][]string{"azs": w.Zones, "networks": networks, "vm_types": w.VMTypes, "vm_extensions": w.Extensions, "disk_types": w.Disks} {
		var there []string
		for _, item := range items(top.Get(key)) {
			there = append(there, scalar(item.Get("name").Scalar()))
		}
		if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(there, name) }) {
			return false
		}
	}
	return true
}

// written returns the result. used are existing files that were not written.
func (r *Request) written(files []*output, w wanted, used []string) *Result {
	result := &Result{Dir: r.Dir, Missing: w.Vars}
	var notes []string
	for _, name := range used {
		notes = append(notes, fmt.Sprintf("%s exists and has all that the manifest names: it is used as it is.", filepath.Join(r.Dir, name)))
	}
	for name, path := range map[string]string{"cloud.yml": w.Cloud, "cpi.yml": w.CPI} {
		if path != name && (name != "cpi.yml" || w.Provider) {
			notes = append(notes, fmt.Sprintf("%s exists and lacks something that the manifest needs: bootstrap.yml names %s in its place.", filepath.Join(r.Dir, name), path))
		}
	}
	slices.Sort(notes)
	for _, f := range files {
		result.Files = append(result.Files, f.path)
	}
	if len(w.Releases) > 0 {
		notes = append(notes, fmt.Sprintf("Put archives of %s into %s, or name another place in bootstrap.yml.", strings.Join(w.Releases, ", "), filepath.Join(r.Dir, "releases")))
	}
	result.Note = strings.Join(notes, "\n")
	at := ""
	if r.Dir != "." {
		at = " " + printable.ShellWord(r.Dir)
	}
	result.Next = []string{"bootstrap plan" + at, "bootstrap deploy" + at}
	return result
}

// variable finds a variable that is a whole value.
var variable = regexp.MustCompile(`^\(\(([A-Za-z0-9_-]+)\)\)$`)

// name returns a name that the manifest uses. Of a variable, the value is to be standard.
func (w *wanted) name(text, standard string) string {
	if !strings.Contains(text, "((") {
		return text
	}
	if found := variable.FindStringSubmatch(text); found != nil {
		w.Given[found[1]] = cmp.Or(w.Given[found[1]], standard)
		return w.Given[found[1]]
	}
	return standard
}

// read collects what a manifest needs. own is the kind of a network of their own that VMs of this
// machine can have; empty: none.
func (w *wanted) read(top document.Value, own string) error {
	if !top.IsMap() || !top.Get("instance_groups").IsList() {
		return refuse("the file is not a manifest of a Director: it has no list instance_groups")
	}
	for _, key := range []string{"resource_pools", "networks"} {
		if top.Get(key).HasKey() {
			return refuse("the manifest has %s of its own, so it needs no cloud config: bootstrap plan MANIFEST", key)
		}
	}
	w.Provider = !top.Get("cloud_provider").HasKey()
	w.Releases = w.sources(top.Get("releases"), "", "name")
	w.Stemcells = w.sources(top.Get("stemcells"), stemcell, "os", "name")
	add := func(to *[]string, values ...document.Value) {
		for _, v := range values {
			name := w.name(v.Scalar(), anyName)
			if name != "" && !slices.Contains(*to, scalar(name)) {
				*to = append(*to, scalar(name))
			}
		}
	}
	var networks []string
	for _, g := range items(top.Get("instance_groups")) {
		if n, err := strconv.Atoi(g.Get("instances").Scalar()); err == nil {
			w.instances += n
		} else {
			w.instances += 2 // the number is in a variable
		}
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
				name := scalar(w.name(n.Get("name").Scalar(), anyName))
				w.static[name] = append(w.static[name], ip.Scalar())
			}
		}
	}
	if len(w.Zones) == 0 {
		w.Zones = []string{"z1"}
	}
	w.ZoneList = strings.Join(w.Zones, ", ")
	ranges := machineRanges()
	if w.instances > 1 && own != "" { // jobs of several that listen at all addresses would meet
		ranges = freeRanges()
	}
	for i, name := range networks {
		n := w.network(name, ranges(i))
		if !strings.HasPrefix(n.Range, "127.") {
			w.Own = true
			if own == isolated {
				n.Kind = own
			}
		}
		w.Networks = append(w.Networks, n)
	}
	return nil
}

// isolated is the kind of a network without a way out, which needs no further program.
const isolated = "isolated"

// machineRanges returns ranges of this machine's own addresses.
func machineRanges() func(i int) netip.Prefix {
	return func(i int) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(64 + i)}), 16) }
}

// freeRanges returns ranges that no network of this machine has.
func freeRanges() func(i int) netip.Prefix {
	var taken []netip.Prefix
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			taken = append(taken, p.Masked())
		}
	}
	var free []netip.Prefix
	for second := range 256 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte((244 + second) % 256)}), 16)
		if !slices.ContainsFunc(taken, p.Overlaps) {
			free = append(free, p)
		}
	}
	if len(free) == 0 {
		return machineRanges()
	}
	return func(i int) netip.Prefix { return free[i%len(free)] }
}

// network proposes a network: this range, or that of the manifest's static addresses.
func (w *wanted) network(name string, of netip.Prefix) wantedNetwork {
	n := wantedNetwork{Name: name, Range: of.String(), Gateway: of.Addr().Next().String()}
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
// keys that they have. Of a variable, the value is to be standard; without one it is left out.
func (w *wanted) sources(list document.Value, standard string, keys ...string) []string {
	var names []string
	for _, item := range items(list) {
		if item.Get("url").Scalar() != "" {
			continue
		}
		for _, key := range keys {
			if name := item.Get(key).Scalar(); name != "" {
				if name = w.name(name, standard); name != "" && !slices.Contains(names, scalar(name)) {
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
