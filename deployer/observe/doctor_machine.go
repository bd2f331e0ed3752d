package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/cpi"
	"bootstrap/deployer/instance"
	"bootstrap/internal/scratch"
	"bootstrap/manifest"
	"bootstrap/state/file"
	"bootstrap/templates"
)

func isMissing(err error) bool {
	var missing *file.MissingError
	return errors.As(err, &missing)
}

// checkHome tries to write to the folder of caches and deployments.
func (d *doctor) checkHome(_ context.Context, v *verdict) {
	if info, err := os.Stat(d.Env.Home); err == nil && !info.IsDir() {
		v.fail("move it away", "%s is not a folder", d.Env.Home)
		return
	}
	dir := instance.Nearest(d.Env.Home)
	if err := tryToWrite(dir); err != nil {
		v.fail("make it writable to you, or set HOME to a folder that is", "cannot write to %s: %v", dir, err)
		return
	}
	v.say("%s is writable", dir)
	if _, noexec, err := instance.FileSystem(dir); err == nil && noexec {
		v.fail("mount it without noexec, or set HOME to a folder on another file system", "programs cannot be run from %s: its file system is mounted noexec", dir)
	}
}

func tryToWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".bootstrap-doctor-")
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// checkModes warns if others can read or write the folder of caches and
// deployments.
func (d *doctor) checkModes(_ context.Context, v *verdict) {
	info, err := os.Stat(d.Env.Home)
	switch {
	case runtime.GOOS == "windows":
		v.skip("not known on this operating system")
		return
	case errors.Is(err, fs.ErrNotExist):
		v.skip("%s does not exist yet", d.Env.Home)
		return
	case err != nil:
		v.fail("make it readable to you", "%v", err)
		return
	case info.Mode().Perm()&0o022 != 0:
		v.fail("chmod go-w "+d.Env.Home, "others can write to %s, and programs are run from there", d.Env.Home)
	}
	entries, err := os.ReadDir(d.Env.Home)
	if err != nil {
		v.fail("make it readable to you", "%v", err)
		return
	}
	for _, e := range entries {
		if uuid.Validate(e.Name()) == nil && e.IsDir() {
			checkInstallation(filepath.Join(d.Env.Home, e.Name()), v)
		}
	}
	if v.result == CheckOK {
		v.say("nobody else can read the folder of a deployment or write to %s", d.Env.Home)
	}
}

// checkInstallation checks the modes of the folder of one deployment and of the
// files in it, which contain secrets.
func checkInstallation(dir string, v *verdict) {
	info, err := os.Stat(dir)
	if err != nil {
		v.warn("make it readable to you", "%v", err)
		return
	}
	if readByOthers(info) {
		v.warn("chmod 700 "+dir, "others can look into %s", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		v.warn("make it readable to you", "%v", err)
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && readByOthers(info) {
			file := filepath.Join(dir, e.Name())
			v.warn("chmod 600 "+file, "only the mode of its folder keeps others from reading %s", file)
		}
	}
}

func readByOthers(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

func (d *doctor) checkTemp(_ context.Context, v *verdict) {
	dir := d.Env.TempDir()
	if err := tryToWrite(dir); err != nil {
		v.fail("set TMPDIR to a folder that exists and is writable to you", "cannot write to the folder of temporary files %s: %v", dir, err)
		return
	}
	v.say("%s is writable", dir)
}

// With less free space, a deploy certainly fails, or may fail: a stemcell needs half a
// GiB, and twice as much while it is extracted.
const (
	spaceNeeded = 512 << 20
	spaceWanted = 3 << 30
)

func (d *doctor) checkSpace(_ context.Context, v *verdict) {
	known := false
	for _, dir := range []string{instance.Nearest(d.Env.Home), instance.Nearest(d.Env.TempDir())} {
		free, _, err := instance.FileSystem(dir)
		if err != nil {
			continue
		}
		known = true
		text := fmt.Sprintf("%s has %d MiB free", dir, free>>20)
		switch {
		case free < spaceNeeded:
			v.fail("make room: "+filepath.Join(d.Env.Home, "cache")+" contains only files that can be fetched again", "%s, too little for releases and stemcells", text)
		case free < spaceWanted:
			v.warn("make room: "+filepath.Join(d.Env.Home, "cache")+" contains only files that can be fetched again", "%s, which a large stemcell may not fit in", text)
		default:
			v.say("%s", text)
		}
	}
	if !known {
		v.skip("not known on this operating system")
	}
}

// checkTools looks for the programs that packaging scripts call.
func (d *doctor) checkTools(_ context.Context, v *verdict) {
	if err := cpi.Supported(runtime.GOOS); err != nil {
		v.warn("run deploy, delete and other commands that create or delete a VM on another machine", "%v", err)
		return
	}
	path := d.Env.Getenv("PATH")
	if runtime.GOOS != "windows" {
		path += string(os.PathListSeparator) + "/usr/local/bin:/usr/bin:/bin"
	}
	if bash := findProgram("bash", path); bash != "" {
		v.say("bash is %s", bash)
	} else {
		v.fail("install bash", "bash, which runs packaging scripts, is not installed")
	}
	var missing []string
	for _, names := range []string{"tar", "gzip", "make", "cc gcc clang", "patch"} {
		if !isAnyOn(path, strings.Fields(names)) {
			missing = append(missing, strings.ReplaceAll(names, " ", " or "))
		}
	}
	switch compiled := d.compiledHere(); {
	case len(missing) == 0:
		v.say("tar, gzip, make, patch and a C compiler are installed")
	case len(compiled) > 0:
		v.warn("install "+strings.Join(missing, ", "), "not installed: %s, which the packages of release %s may need, because they are compiled on this machine", strings.Join(missing, ", "), strings.Join(compiled, ", "))
	default:
		v.say("not installed, and needed only by CPIs that are compiled from source: %s", strings.Join(missing, ", "))
	}
}

func isAnyOn(path string, names []string) bool {
	for _, name := range names {
		if findProgram(name, path) != "" {
			return true
		}
	}
	return false
}

// findProgram finds a program on a PATH.
func findProgram(program, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
				return found
			}
		}
	}
	return ""
}

// compiledHere returns the releases whose packages are compiled on this
// machine: those of the CPI, except the embedded one.
func (d *doctor) compiledHere() []string {
	if d.in == nil {
		return nil
	}
	var names []string
	for _, rel := range d.in.ReleasesOf(d.in.Manifest.CPI.Templates) {
		if !strings.HasPrefix(rel.URL, "embedded:") {
			names = append(names, rel.Name)
		}
	}
	return names
}

// checkRuby renders a template.
func (d *doctor) checkRuby(ctx context.Context, v *verdict) {
	const remedy = "build the program with its Ruby (make build), or install a Ruby and name it with --ruby"
	version, err := d.render(ctx, "<%= RUBY_VERSION %>")
	which := "the embedded Ruby"
	if d.Env.Ruby != "" {
		which = d.Env.Ruby
	}
	if err != nil {
		v.fail(remedy, "templates cannot be rendered with %s: %v", which, err)
		return
	}
	v.say("%s, version %s, renders templates", which, version)
}

// render renders one template without properties.
func (d *doctor) render(ctx context.Context, template string) (text string, err error) {
	folder, err := scratch.New(d.Env.TempDir(), "doctor")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	dir := folder.Path
	if err := os.WriteFile(filepath.Join(dir, "monit"), []byte(template), 0o600); err != nil {
		return "", err
	}
	engine := d.Env.NewEngine(ctx)
	defer func() { _ = engine.Close() }() // Close also closes a child that has ended.
	job := templates.Job{Job: &artifact.Job{Release: "doctor", Name: "doctor", Dir: dir}}
	if err := engine.Render(ctx, []templates.Job{job}, filepath.Join(dir, "rendered")); err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(dir, "rendered", "doctor", "monit"))
	return string(data), err
}

// sources returns the URLs of the releases and the stemcell that are fetched
// over the network.
func sources(m *manifest.Manifest) []string {
	if m == nil {
		return nil
	}
	var urls []string
	for _, rel := range m.Releases {
		urls = append(urls, rel.URL)
	}
	urls = append(urls, m.ResourcePool.Stemcell.URL)
	var remote []string
	for _, u := range urls {
		if strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://") {
			remote = append(remote, u)
		}
	}
	return remote
}

// checkMachine checks which kind of VM the embedded CPI would create.
func (d *doctor) checkMachine(ctx context.Context, v *verdict) {
	if d.Env.Machine == nil || d.in != nil && !d.in.EmbeddedCPI() {
		v.skip("the embedded CPI is not used")
		return
	}
	if cpi.Supported(runtime.GOOS) != nil { // checkTools reports it
		v.skip("no VM can be made on this operating system")
		return
	}
	var m instance.Machine
	if d.in != nil {
		m = d.host.NewMachine(ctx)
	} else {
		m = d.Env.Machine(ctx, "", false)
	}
	defer d.sayNetwork(ctx, m, v)
	switch {
	case m.Refused == nil && m.Kind == agent.MachineContainer:
		v.say("new VMs of the embedded CPI are containers of the stemcell")
	case m.Kind == agent.MachineContainer:
		v.fail(cmp.Or(m.Remedy, "use embedded:local-stemcell"), "the VMs of a stemcell with a root file system are made of namespaces: %v", m.Refused)
	case m.Refused == nil && m.Kind == agent.MachineNamespace:
		v.say("new VMs of the embedded CPI are made of namespaces")
	case m.Refused == nil:
		v.say("the VM's cloud_properties ask for a folder")
	case m.Kind == agent.MachineNamespace:
		v.fail(cmp.Or(m.Remedy, "remove `machine` from the VM's cloud_properties"), "the VM's cloud_properties ask for namespaces: %v", m.Refused)
	case m.Remedy != "":
		v.warn(m.Remedy, "new VMs of the embedded CPI are folders without namespaces, in which only releases that use $VCAP_ROOT run: %v", m.Refused)
	default:
		v.say("new VMs of the embedded CPI are folders without namespaces, in which only releases that use $VCAP_ROOT run: %v", m.Refused)
	}
	if agent.Isolated(m.Kind) {
		d.checkLimits(ctx, v)
	}
}

// checkLimits checks which limits are not enforced for a new VM of the embedded CPI.
// Limits that its cloud_properties do not have are only mentioned.
func (d *doctor) checkLimits(ctx context.Context, v *verdict) {
	if d.Env.Limits == nil {
		return
	}
	if d.in != nil {
		if l := d.host.NotHeld(ctx); len(l.Names) > 0 {
			v.warn(l.Remedy, "the VM's cloud_properties ask for %s, which it cannot get here: %v", strings.Join(l.Names, " and "), l.Cause)
			return
		}
	}
	if l := d.Env.Limits(agent.MachineNamespace, map[string]any{"users": "many"}); len(l.Names) > 0 {
		v.say("they have one user: %v", l.Cause)
	} else {
		v.say("they can have users of their own (users: many)")
	}
	sayLimits(v, d.Env.Limits(agent.MachineNamespace, map[string]any{"cpu": 1.0, "ram": 1.0}), "memory and CPU")
	if d.Env.DiskLimit != nil {
		sayLimits(v, d.Env.DiskLimit(agent.MachineNamespace), "the size of their persistent disks")
	}
}

// sayLimits reports whether all of these limits can be enforced.
func sayLimits(v *verdict, l instance.Limits, all string) {
	switch {
	case len(l.Names) == 0:
		v.say("they can be held to %s", all)
	case l.Remedy != "":
		v.say("they cannot be held to %s: %v; to change that: %s", strings.Join(l.Names, " and "), l.Cause, l.Remedy)
	default:
		v.say("they cannot be held to %s: %v", strings.Join(l.Names, " and "), l.Cause)
	}
}

// sayNetwork reports the network of a new VM of the embedded CPI.
func (d *doctor) sayNetwork(ctx context.Context, m instance.Machine, v *verdict) {
	if d.in == nil {
		if m.Refused == nil && agent.Isolated(m.Kind) {
			d.sayNetworks(v)
		}
		return
	}
	n := d.host.NewNetwork(ctx)
	switch {
	case n.Problem != nil:
		v.fail("correct the network in the manifest, or what cloud_provider.properties.local_cpi.ports publishes; a network that leads outside needs slirp4netns or passt", "%v", n.Problem)
	case n.Own && n.Out != "":
		v.say("the new VM has a network of its own, and reaches the outside through %s", n.Out)
	case n.Own:
		v.say("the new VM has a network of its own, without a way out")
	}
}

// sayNetworks reports whether VMs of the embedded CPI can have networks of their own. It
// tries a network that is reserved for documentation.
func (d *doctor) sayNetworks(v *verdict) {
	if d.Env.Network == nil {
		return
	}
	n := d.Env.Network(map[string]map[string]any{"default": {
		"type": "manual", "ip": "192.0.2.10", "netmask": "255.255.255.0", "gateway": "192.0.2.1", "cloud_properties": map[string]any{"kind": "own"},
	}}, nil, agent.MachineNamespace)
	if n.Problem == nil {
		v.say("they can have networks of their own, and reach the outside through %s", n.Out)
		return
	}
	v.say("they cannot have networks of their own that lead outside: install the package slirp4netns or passt for that")
}
