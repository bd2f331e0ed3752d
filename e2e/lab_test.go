//go:build unix

package e2e

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "bootstrap/cmd" // imported so that go test notices changes of the program, and does not use a cached result
	"bootstrap/local/namespace"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// built builds the program with the points at which a test can kill it. It has the race
// detector, with which Ruby is slow, only if RACE is set. All tests share its folder, and a
// cache.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bootstrap-test-")
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "cache"), 0o700); err != nil {
		return dir, err
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "bootstrap"), "bootstrap/e2e/traced")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if os.Getenv("RACE") != "" {
		build.Args = slices.Insert(build.Args, 2, "-race")
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return dir, nil
})

// used is set by the first test that needs the program.
var used atomic.Bool

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		// A script needs a core for a quarter of its time.
		if err := f.Value.Set(strconv.Itoa(4 * runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	status := m.Run()
	if !used.Load() {
		os.Exit(status)
	}
	if dir, _ := built(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(status)
}

// program returns the folder of the program, for a PATH, and the folder of the caches.
func program(t *testing.T) (bin, cache string) {
	t.Helper()
	used.Store(true)
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, "cache")
}

// lab has its own home folder, ports, releases and manifest for deploys.
type lab struct {
	dir, bin string
	machine  string       // kind of machine of its VMs
	mbus     [2]int       // ports of agents; two, for VMs that exist at the same time
	page     int          // port
	ssh      int          // the port of the VM's SSH server, for a registry
	sshKey   string       // the public key; the private key is in ssh.key
	proxy    *proxy       // between the program and the agents; nil: there is no proxy
	held     net.Listener // listens on a port that a run needs
	want     wish
	env      []string        // environment of every run, in addition to the usual one
	store    string          // address of the store with the state; empty: the state is a file
	ends     []func()        // functions to call at the end
	inStore  func() []string // returns the names of the store's documents; nil: unknown

	keys   sync.Mutex // protects the following fields
	cas    map[int]authority
	leaves map[[2]int]identity // by the numbers of CA and certificate
}

// authority is a CA that signs certificates of agents.
type authority struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// identity is a certificate of an agent.
type identity struct {
	ca, leaf *x509.Certificate
	key      *ecdsa.PrivateKey
}

// wish describes a generated manifest.
type wish struct {
	Title     string            // title of the page
	Jobs      []string          // page, idle
	Source    int               // version of the package page-server
	Idle      int               // version of the package idle-tool
	Disk      int               // MiB; 0: no disk
	DiskProps map[string]any    // cloud_properties of the disk
	Named     map[string]int    // with Shared: sizes of the named disks, in place of Disk; in MiB
	Stemcell  int               // version
	CPU       int               // a cloud property of the VM; 0: not set
	Env       string            // a variable of the VM's env; empty: not set
	Tags      map[string]string // tags of the deployment
	Dynamic   bool              // network
	MBus      int               // which of the lab's ports the agent uses
	Strategy  string            // update.vm_strategy
	Snapshot  bool              // update.snapshot
	Flaky     bool              // the CPI fails as the files in the folder faults say
	Moves     bool              // update_disk replaces the disk, with another CID, and accepts a type
	V1        bool              // the CPI speaks API version 1: a registry, and a tunnel to it
	Password  int               // number of the agent's password
	CA, Leaf  int               // numbers of the agent's CA and certificate
	Whole     bool              // env.bosh.mbus.cert also contains the CA
	TmpFS     bool              // the agent keeps its settings in memory
	Shared    bool              // the address comes from a cloud config
	Workers   bool              // with Shared: packages are compiled on other VMs
	Address   string            // address of the VM; empty: 127.0.0.1
}

func newWish() wish {
	return wish{Title: "one", Jobs: []string{"page"}, Source: 1, Idle: 1, Disk: 64, Stemcell: 1}
}

// newLab creates a lab; end removes it and ends its processes.
func newLab(t *testing.T) (*lab, error) {
	t.Helper()
	bin, cache := program(t)
	dir, err := os.MkdirTemp("", "bootstrap-lab-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	l := &lab{dir: dir, bin: filepath.Join(bin, "bootstrap"), machine: machine(), want: newWish()}
	for _, p := range []*int{&l.mbus[0], &l.mbus[1], &l.page, &l.ssh} {
		if *p, err = freePort(); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{"home/.bosh", "tmp", "state", "releases"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.Symlink(cache, filepath.Join(dir, "home/.bosh/cache")); err != nil {
		return nil, err
	}
	if l.sshKey, err = newSSHKey(l.path("ssh.key")); err != nil {
		return nil, err
	}
	_, err = l.identity(l.want)
	return l, err
}

func (l *lab) end() {
	endAll(func() []process { return allOf(l.dir) })
	if l.proxy != nil {
		l.proxy.close()
	}
	for _, end := range l.ends {
		end()
	}
	_ = os.RemoveAll(l.dir)
}

// identity returns the wanted certificate. The first call for it creates it.
func (l *lab) identity(w wish) (identity, error) {
	l.keys.Lock()
	defer l.keys.Unlock()
	if l.cas == nil {
		l.cas, l.leaves = map[int]authority{}, map[[2]int]identity{}
	}
	end := time.Now().AddDate(1, 0, 0) // long enough that no warning appears
	ca, ok := l.cas[w.CA]
	if !ok {
		cert, key, err := certificate(&x509.Certificate{NotAfter: end, Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
		if err != nil {
			return identity{}, err
		}
		ca = authority{cert, key}
		l.cas[w.CA] = ca
	}
	id, ok := l.leaves[[2]int{w.CA, w.Leaf}]
	if !ok {
		leaf, key, err := certificate(&x509.Certificate{NotAfter: end, Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca.Certificate, ca.key)
		if err != nil {
			return identity{}, err
		}
		id = identity{ca.Certificate, leaf, key}
		l.leaves[[2]int{w.CA, w.Leaf}] = id
	}
	return id, nil
}

// agentURL returns the URL at which the agent itself listens, with user and
// password.
func (l *lab) agentURL(w wish) string {
	return fmt.Sprintf("https://mbus:secret-of-the-lab%d@127.0.0.1:%d", w.Password, l.mbus[w.MBus])
}

// isRotated connects to the agent and checks that it serves the wanted certificate,
// accepts the wanted password, and refuses all earlier passwords.
func (l *lab) isRotated() error {
	w := l.want
	id, err := l.identity(w)
	if err != nil {
		return err
	}
	leaf, status, err := askAgent(l.agentURL(w))
	switch {
	case err != nil:
		return err
	case !leaf.Equal(id.leaf):
		return fmt.Errorf("the agent serves the certificate %X, and %X is wished", leaf.SerialNumber, id.leaf.SerialNumber)
	case status != http.StatusOK:
		return fmt.Errorf("the agent answers the new password with %d", status)
	}
	for w.Password--; w.Password >= 0; w.Password-- {
		if _, status, err := askAgent(l.agentURL(w)); err != nil || status != http.StatusUnauthorized {
			return fmt.Errorf("the agent answers an old password with %d, %w", status, err)
		}
	}
	return nil
}

func (l *lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

// statePath returns the path of the state, or of this machine's copy of it.
func (l *lab) statePath() string {
	if l.store != "" {
		return filepath.Join(team.Folder(l.path("home", ".bosh"), team.Place(l.store)), "state.json")
	}
	return l.path("state", "state.json")
}

// stateArgument returns the value of --state.
func (l *lab) stateArgument() string { return cmp.Or(l.store, l.statePath()) }

// write writes the wanted manifest, releases and stemcells.
func (l *lab) write() error {
	if err := l.writeReleases(); err != nil {
		return err
	}
	all := l.manifest()
	if l.want.Shared {
		cloud := share(all, l.want)
		if l.want.Workers {
			cloud["compilation"] = map[string]any{"workers": 2, "network": "default", "vm_type": "default"}
		}
		data, err := json.MarshalIndent(cloud, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(l.path("cloud.yml"), data, 0o600); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(all, "", " ") // which is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(l.path("manifest.yml"), data, 0o600)
}

func (l *lab) manifest() map[string]any {
	type m = map[string]any
	type list = []any
	w := l.want
	port := l.mbus[w.MBus]
	agent := l.agentURL(w)
	mbus := agent
	if l.proxy != nil {
		mbus = strings.Replace(mbus, fmt.Sprint(":", port), fmt.Sprint(":", l.proxy.ports[w.MBus]), 1)
	}
	id, err := l.identity(w)
	if err != nil {
		panic(err) // no randomness
	}
	keyDER, _ := x509.MarshalECPrivateKey(id.key) // cannot fail: the curve is known
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	cert := m{"certificate": encode("CERTIFICATE", id.leaf.Raw), "private_key": encode("EC PRIVATE KEY", keyDER)}
	if w.Whole {
		cert["ca"] = encode("CERTIFICATE", id.ca.Raw)
	}
	bosh := m{"mbus": m{"cert": cert}}
	if w.TmpFS {
		bosh["agent"] = m{"settings": m{"tmpfs": true}}
	}
	env := m{"bosh": bosh}
	if w.Env != "" {
		env["lab"] = w.Env
	}
	pool := m{"name": "default", "network": "default", "env": env, "stemcell": m{"url": "file://" + l.path(fmt.Sprintf("stemcell-%d.tgz", w.Stemcell))}}
	properties := m{"machine": l.machine}
	if w.CPU > 0 {
		properties["cpu"] = w.CPU
	}
	pool["cloud_properties"] = properties
	network, join := m{"name": "default", "type": "dynamic"}, m{"name": "default"}
	if !w.Dynamic {
		network = m{"name": "default", "type": "manual", "subnets": list{m{"range": "127.0.0.0/24", "gateway": "127.0.0.254"}}}
		join["static_ips"] = list{cmp.Or(w.Address, "127.0.0.1")}
	}
	var jobs list
	for _, name := range w.Jobs {
		jobs = append(jobs, m{"name": name, "release": "lab"})
	}
	group := m{
		"name": "web", "instances": 1, "jobs": jobs, "resource_pool": "default", "networks": list{join},
		"properties": m{"page": m{"title": w.Title, "port": l.page}},
	}
	cpi := m{"name": "local-cpi", "url": "embedded:local-cpi"}
	if w.Flaky || w.Moves {
		cpi["url"] = "file://" + l.path("releases", "cpi")
	}
	all := m{
		"name":           "lab",
		"releases":       list{cpi, m{"name": "lab", "url": "file://" + l.path("releases", "lab")}},
		"networks":       list{network},
		"resource_pools": list{pool},
		"update":         m{"update_watch_time": "0-120000", "vm_strategy": w.Strategy, "snapshot": w.Snapshot},
		"cloud_provider": m{
			"template": m{"name": "local_cpi", "release": "local-cpi"}, "mbus": mbus,
			"cert": m{"ca": encode("CERTIFICATE", id.ca.Raw)}, "properties": m{"agent": m{"mbus": agent}},
		},
	}
	if w.V1 {
		provider := all["cloud_provider"].(m)
		provider["properties"].(m)["local_cpi"] = m{"api_version": 1, "ssh": m{"port": l.ssh, "user": "vcap", "authorized_keys": list{l.sshKey}}}
		provider["ssh_tunnel"] = m{"host": "127.0.0.1", "port": l.ssh, "user": "vcap", "private_key": "./ssh.key"}
		provider["registry"] = m{"host": "127.0.0.1", "port": 0, "username": "registry", "password": "secret-of-the-lab"}
	}
	if w.Disk > 0 {
		all["disk_pools"] = list{m{"name": "default", "disk_size": w.Disk, "cloud_properties": w.DiskProps}}
		group["persistent_disk_pool"] = "default"
	}
	if len(w.Tags) > 0 {
		all["tags"] = w.Tags
	}
	if w.Strategy == "" {
		delete(all["update"].(m), "vm_strategy")
	}
	all["instance_groups"] = list{group}
	return all
}

// share changes the manifest to the Director's style, and returns its cloud config.
func share(all map[string]any, w wish) (cloud map[string]any) {
	type m = map[string]any
	type list = []any
	pool, group := all["resource_pools"].(list)[0].(m), all["instance_groups"].(list)[0].(m)
	subnet := all["networks"].(list)[0].(m)["subnets"].(list)[0].(m)
	subnet["static"] = list{"127.0.0.1", "127.0.0.2"}
	cloud = m{"networks": all["networks"], "vm_types": list{m{"name": "default"}}, "disk_types": list{}}
	if disks, ok := all["disk_pools"]; ok {
		cloud["disk_types"] = disks
		group["persistent_disk_type"] = group["persistent_disk_pool"]
	}
	if len(w.Named) > 0 {
		var named, types list
		for name, size := range sorted(w.Named) {
			named = append(named, m{"name": name, "type": name})
			types = append(types, m{"name": name, "disk_size": size})
		}
		group["persistent_disks"], cloud["disk_types"] = named, types
	}
	all["cloud_config"] = "cloud.yml"
	all["stemcells"] = list{m{"alias": "default", "os": "local", "version": "latest", "url": pool["stemcell"].(m)["url"]}}
	group["vm_type"], group["stemcell"], group["env"] = "default", "default", pool["env"]
	for _, key := range []string{"resource_pool", "persistent_disk_pool"} {
		delete(group, key)
	}
	for _, key := range []string{"networks", "resource_pools", "disk_pools"} {
		delete(all, key)
	}
	return cloud
}

// writeReleases writes the release of the page, which has a second job; the CPI whose
// calls can be made to fail; and the stemcells.
func (l *lab) writeReleases() error {
	page, cpi := "../testdata/quickstart/page-release/", "../local/cpi/release"
	spec, err := os.ReadFile(page + "jobs/page/templates/pre-start.erb")
	if err != nil {
		return err
	}
	cpiScript, err := os.ReadFile(cpi + "/jobs/local_cpi/templates/cpi.erb")
	if err != nil {
		return err
	}
	own := map[string]string{
		// The first job to start writes a mark to each disk.
		"lab/jobs/page/templates/pre-start.erb": string(spec) + `
root=${VCAP_ROOT:-/var/vcap}
for disk in "$root/store" "$root"/instance/disks/*; do
  [ -d "$disk/" ] || continue
  mkdir -p "$disk/page"
  born=$disk/page/born
  [ -s "$born" ] || { echo "$$-$RANDOM-$(date +%s)" >"$born.new" && mv "$born.new" "$born"; }
done
`,
		"lab/src/page-server/version":          fmt.Sprintln(l.want.Source),
		"lab/src/idle-tool/idle":               fmt.Sprintf("#!/bin/bash\n# %d\nexec sleep 1000000\n", l.want.Idle),
		"lab/packages/idle-tool/spec":          "name: idle-tool\nfiles:\n- idle-tool/*\n",
		"lab/packages/idle-tool/packaging":     "set -eu\nmkdir -p \"$BOSH_INSTALL_TARGET/bin\"\ninstall -m 755 idle-tool/idle \"$BOSH_INSTALL_TARGET/bin/\"\n",
		"lab/config/final.yml":                 "name: lab\n",
		"lab/jobs/idle/spec":                   "name: idle\ntemplates:\n  ctl.erb: bin/ctl\npackages:\n- idle-tool\nproperties: {}\n",
		"lab/jobs/idle/monit":                  "check process idle\n  with pidfile /var/vcap/sys/run/idle/idle.pid\n  start program \"/var/vcap/jobs/idle/bin/ctl start\"\n  stop program \"/var/vcap/jobs/idle/bin/ctl stop\"\n  group vcap\n",
		"lab/jobs/idle/templates/ctl.erb":      idleCtl,
		"cpi/jobs/local_cpi/templates/cpi.erb": flaky(string(cpiScript)),
	}
	for from, to := range map[string]string{page: "lab", cpi: "cpi"} {
		err := fs.WalkDir(os.DirFS(from), ".", func(path string, d fs.DirEntry, err error) error {
			if name := to + "/" + path; err == nil && !d.IsDir() && own[name] == "" {
				var data []byte
				data, err = os.ReadFile(filepath.Join(from, path))
				own[name] = string(data)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for name, text := range own {
		if err := l.put(filepath.Join("releases", name), text); err != nil {
			return err
		}
	}
	return l.writeStemcell()
}

const idleCtl = `#!/bin/bash
set -eu
root=${VCAP_ROOT:-/var/vcap}
run=$root/sys/run/idle
case ${1:-} in
start)
  mkdir -p "$run"
  "$root/packages/idle-tool/bin/idle" </dev/null >/dev/null 2>&1 &
  echo $! >"$run/idle.pid"
  ;;
stop)
  [ ! -f "$run/idle.pid" ] || kill "$(cat "$run/idle.pid")" 2>/dev/null || true
  rm -f "$run/idle.pid"
  ;;
esac
`

// flaky changes the script bin/cpi so that it first looks into the folder faults of its
// home. The changed script accepts a type as a property of disks; for a new type,
// update_disk replaces the disk.
func flaky(script string) string {
	head, tail, _ := strings.Cut(script, "\nexec ")
	return head + `
request=$(</dev/stdin)
# Programs are only started where bash alone cannot do it: there are many calls.
case $request in *'{"type":"'*) request=$(sed 's/{"type":"[a-z]*"}/{}/' <<<"$request") ;; esac
method=${request##*'"method":"'}
method=${method%%'"'*}
fault=
[ ! -f "$HOME/faults/$method" ] || { fault=$(cat "$HOME/faults/$method"); rm "$HOME/faults/$method"; }
real() { exec ` + strings.TrimSpace(tail) + ` <<<"$request"; }
case $fault in
before-hang) exec sleep 1000000 ;;
before-garbage) echo "this is no JSON {"; exit ;;
before-silence) exit ;;
says-false) echo '{"result":false,"error":null,"log":""}'; exit ;;
before-exit) echo "it broke" >&2; exit 3 ;;
before-retry) echo '{"result":null,"error":{"type":"Bosh::Clouds::CloudError","message":"as planned","ok_to_retry":true},"log":""}'; exit ;;
before-*) echo '{"result":null,"error":{"type":"'"${fault#before-}"'","message":"as planned","ok_to_retry":false},"log":""}'; exit ;;
after-hang) (real) >/dev/null; exec sleep 1000000 ;;
after-garbage) (real) >/dev/null; echo "this is no JSON {"; exit ;;
after-exit) (real) || true; exit 3 ;;
after-kill) (real) >/dev/null; kill -9 $$ ;;
esac
[ "$method" = update_disk ] || real
reply=$(real)
case $reply in *'"error":null'*) ;; *) echo "$reply"; exit ;; esac
old=$(expr "$request" : '.*"arguments":\["\(disk-[0-9a-f]*\)"')
new=disk-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
cd "$HOME/.bosh/local/disks"
sed "s/$old/$new/" "$old/disk.json" >"$old/disk.json.new"
mv "$old/disk.json.new" "$old/disk.json"
mv "$old" "$new"
echo '{"result":"'$new'","error":null,"log":""}'
`
}

func (l *lab) put(name, text string) error {
	path := l.path(name)
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

func (l *lab) writeStemcell() error {
	archive := l.path(fmt.Sprintf("stemcell-%d.tgz", l.want.Stemcell))
	if _, err := os.Stat(archive); err == nil {
		return nil
	}
	dir := fmt.Sprintf("stemcell-%d", l.want.Stemcell)
	mf := fmt.Sprintf("name: lab\nversion: \"%d\"\napi_version: 3\noperating_system: local\nstemcell_formats: [local]\ncloud_properties: {}\n", l.want.Stemcell)
	if err := errors.Join(l.put(filepath.Join(dir, "stemcell.MF"), mf), l.put(filepath.Join(dir, "image"), "")); err != nil {
		return err
	}
	if err := os.WriteFile(l.path(dir, "image"), nil, 0o600); err != nil {
		return err
	}
	out, err := exec.Command("tar", "-C", l.path(dir), "-czf", archive, "stemcell.MF", "image").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// outcome says how a run of the program ended.
type outcome struct {
	text   string // everything that the run printed
	status int    // -1: killed by a signal
}

// runLimit limits one run: it is far longer than any run takes.
const runLimit = 5 * time.Minute

// run runs the program in the lab, with env in its environment.
func (l *lab) run(env []string, args ...string) (outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd, text := l.command(ctx, env, args...)
	err := cmd.Run()
	return l.judge(ctx, cmd, text, err)
}

func (l *lab) command(ctx context.Context, env []string, args ...string) (*exec.Cmd, *os.File) {
	name := args[0]
	args = append(slices.Clone(args), l.path("manifest.yml"), "--state", l.stateArgument(), "--agent-timeout", "2m")
	if name == "delete" {
		args = append(args, "--yes")
	}
	cmd := exec.CommandContext(ctx, l.bin, args...)
	cmd.Dir = l.dir
	cmd.Env = slices.Concat([]string{"HOME=" + l.path("home"), "TMPDIR=" + l.path("tmp"), "PATH=" + os.Getenv("PATH")}, l.env, env)
	cmd.WaitDelay = 10 * time.Second
	// The output goes to a file, so that the end of the run is visible even if a CPI
	// continues.
	out, err := os.CreateTemp(l.dir, "out-"+name+"-")
	if err == nil {
		cmd.Stdout, cmd.Stderr = out, out
	}
	return cmd, out
}

func (l *lab) judge(ctx context.Context, cmd *exec.Cmd, text *os.File, err error) (outcome, error) {
	defer os.Remove(text.Name())
	defer text.Close()
	data, _ := os.ReadFile(text.Name())
	o := outcome{text: string(data), status: -1}
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return o, fmt.Errorf("%v did not end within %v:\n%s", cmd.Args, runLimit, o.text)
	case err != nil && !errors.As(err, &ended):
		return o, fmt.Errorf("%v: %w:\n%s", cmd.Args, err, o.text)
	}
	o.status = cmd.ProcessState.ExitCode()
	if strings.Contains(o.text, "goroutine ") && strings.Contains(o.text, "panic") {
		return o, fmt.Errorf("%v panics:\n%s", cmd.Args, o.text)
	}
	if strings.Contains(o.text, "secret-of-the-lab") {
		return o, fmt.Errorf("%v tells the password of the agent:\n%s", cmd.Args, o.text)
	}
	return o, nil
}

// must is like run, but the run must succeed.
func (l *lab) must(args ...string) error {
	o, err := l.run(nil, args...)
	if err == nil && o.status != 0 {
		err = fmt.Errorf("%v ended with %d:\n%s", args, o.status, o.text)
	}
	return err
}

// forget removes a leftover from the list.
func (l *lab) forget(id string) error {
	return l.ofState("state", "leftovers", "--forget", id)
}

// deleteSnapshots deletes all snapshots that the state records.
func (l *lab) deleteSnapshots() error {
	return l.ofState("disks", "snapshots", "delete", "--older-than", "0s", "--yes")
}

// deleteOrphans deletes the orphans that the state records.
func (l *lab) deleteOrphans() error {
	return l.ofState("disks", "delete", "--older-than", "0s", "--yes")
}

// ofState runs a command that needs only the state, and must succeed.
func (l *lab) ofState(args ...string) error {
	cmd := exec.Command(l.bin, append(args, "--state", l.stateArgument())...)
	cmd.Env = append([]string{"HOME=" + l.path("home")}, l.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w:\n%s", cmd.Args, err, out)
	}
	return nil
}

// traced is like run, and returns the points of the run.
func (l *lab) traced(args ...string) (outcome, []string, error) {
	file := l.path("trace")
	_ = os.Remove(file)
	o, err := l.run([]string{"BOOTSTRAP_TRACE=" + file}, args...)
	if err != nil {
		return o, nil, err
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return o, strings.Split(strings.TrimSpace(string(data)), "\n"), err
}

func (l *lab) state() (state.State, error) {
	st, _, err := file.Read(l.statePath(), "")
	return st, err
}

// cids lists the things of one kind in the embedded CPI's folder: vms, disks or
// stemcells.
func (l *lab) cids(kind string) []string {
	entries, _ := os.ReadDir(l.path("home/.bosh/local", kind))
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// born returns the mark that the first job has written to the disk.
func (l *lab) born(disk string) string {
	data, err := os.ReadFile(l.path("home/.bosh/local/disks", disk, "data/page/born"))
	if err == nil {
		return strings.TrimSpace(string(data))
	}
	// A file system in an image file is mounted only in the VM; if no VM uses it, the
	// test can read it.
	image := l.path("home/.bosh/local/disks", disk, "disk.img")
	if _, err := os.Stat(image); err != nil {
		return ""
	}
	for _, p := range inVMs(filepath.Join(filepath.Base(l.dir), "home")) {
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s/page/born", p.pid, namespace.GuestDisk(disk))); err == nil {
			return strings.TrimSpace(string(data))
		}
	}
	data, _ = exec.Command("debugfs", "-R", "cat /page/born", image).Output()
	return strings.TrimSpace(string(data))
}

// sortedKeys are the keys of a set.
func sortedKeys[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
