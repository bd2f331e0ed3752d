//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// site is a deployment of one or three instances whose documents are in a place.
type site struct {
	t         *testing.T // of the cell
	root      *testing.T // of all cells
	bin, dir  string
	kind      string // of the place
	instances int
	place     shelf
	state     string // --state; empty: beside the manifest
	env       []string
	restore   func(*testing.T) // brings back the documents and this machine's files
	good      parts            // what there is when nothing is removed
	names     []string         // documents when nothing is removed
	subnet    string
}

// parts are what a command must not double, and must not lose.
type parts struct {
	cloud []string          // VMs, disks and stemcells
	files map[string]string // the documents that this machine has, by path
}

// siteNumber makes the addresses of each site its own.
func siteNumber(kind string, instances int) int {
	return 100 + 2*slices.Index(placeNames, kind) + instances/3
}

func newSite(t *testing.T, kind string, instances int) *site {
	t.Helper()
	bin, cache := program(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	s := &site{t: t, root: t, bin: filepath.Join(bin, "bootstrap"), dir: dir, kind: kind, instances: instances, subnet: fmt.Sprintf("127.%d.0", siteNumber(kind, instances))}
	t.Cleanup(s.end)
	for _, d := range []string{"home/.bosh", "tmp"} {
		check(t, os.MkdirAll(s.path(d), 0o700))
	}
	check(t, os.Symlink(cache, s.path("home/.bosh/cache")))
	s.place, s.state, s.env = newPlace(t, kind, dir)
	s.write()
	s.deploy()
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) end() { endAll(func() []process { return allOf(s.dir) }) }

// write writes the manifest, its release, and bootstrap.yml with the flags of all commands.
func (s *site) write() {
	s.t.Helper()
	port, err := freePort()
	check(s.t, err)
	flags := "cloud_configs: [cloud.yml]\n"
	if s.state == "" {
		flags += "vars_store: creds.yml\n"
	} else {
		flags += fmt.Sprintf("state: %q\n", s.state)
	}
	for name, text := range map[string]string{
		"bootstrap.yml": flags,
		"cloud.yml": `azs: [{name: z1}]
networks:
- name: default
  subnets: [{range: SUBNET.0/24, gateway: SUBNET.1, azs: [z1], static: [SUBNET.10-SUBNET.12]}]
vm_types: [{name: small, cloud_properties: {machine: folder}}]
disk_types: [{name: small, disk_size: 16}]
`,
		"page.yml": `name: page
releases:
- {name: local-cpi, url: "embedded:local-cpi"}
- {name: page, url: "file://release"}
stemcells: [{alias: default, os: local, version: latest, url: "embedded:local-stemcell"}]
instance_groups:
- name: web
  instances: INSTANCES
  azs: [z1]
  vm_type: small
  stemcell: default
  persistent_disk_type: small
  networks: [{name: default, static_ips: [STATIC]}]
  env: {bosh: {mbus: {cert: ((mbus_tls))}}}
  jobs: [{name: web, release: page, properties: {secret: ((secret))}}]
update: {canaries: 0, max_in_flight: 3, canary_watch_time: 0-60000, update_watch_time: 0-60000}
variables:
- {name: secret, type: password}
- {name: mbus_password, type: password}
- {name: mbus_ca, type: certificate, options: {is_ca: true, common_name: ca}}
- {name: mbus_tls, type: certificate, options: {ca: mbus_ca, common_name: web, alternative_names: [SUBNET.10, SUBNET.11, SUBNET.12]}}
cloud_provider:
  template: {name: local_cpi, release: local-cpi}
  mbus: https://mbus:((mbus_password))@HOST:PORT
  cert: ((mbus_tls))
  properties: {agent: {mbus: "https://mbus:((mbus_password))@HOST:PORT"}}
`,
		"release/config/final.yml":              "name: page\n",
		"release/jobs/web/monit":                "check process web\n  with pidfile /var/vcap/sys/run/web/web.pid\n  start program \"/var/vcap/jobs/web/bin/ctl start\"\n  stop program \"/var/vcap/jobs/web/bin/ctl stop\"\n  group vcap\n",
		"release/jobs/web/spec":                 "name: web\ntemplates: {config.erb: config, ctl: bin/ctl}\npackages: []\nproperties: {secret: {}}\n",
		"release/jobs/web/templates/ctl":        "#!/bin/bash\ndir=$VCAP_ROOT/sys/run/web\nmkdir -p $dir\ncase $1 in\nstart) sleep 100000 </dev/null >/dev/null 2>&1 & echo $! >$dir/web.pid ;;\nstop) kill $(cat $dir/web.pid); rm -f $dir/web.pid ;;\nesac\n",
		"release/jobs/web/templates/config.erb": "<%= p('secret') %>\n",
	} {
		addresses := []string{s.subnet + ".10", s.subnet + ".11", s.subnet + ".12"}[:s.instances]
		host := "0.0.0.0"
		if s.instances == 1 {
			host = addresses[0]
		}
		text = strings.NewReplacer("SUBNET", s.subnet, "INSTANCES", fmt.Sprint(s.instances), "STATIC", strings.Join(addresses, ", "),
			"HOST", host, "PORT", fmt.Sprint(port)).Replace(text)
		check(s.t, os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
		check(s.t, os.WriteFile(s.path(name), []byte(text), 0o600))
	}
}

// run runs a command on this machine.
func (s *site) run(args ...string) (out string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bin, args...) // #nosec G204 -- the program under test
	cmd.Dir, cmd.WaitDelay = s.dir, 10*time.Second
	cmd.Env = append([]string{"HOME=" + s.path("home"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.path("tmp"), "SITE=" + s.dir}, s.env...)
	text, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		s.t.Fatalf("%v: %v\n%s", args, err, text)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (s *site) must(args ...string) string {
	s.t.Helper()
	out, code := s.run(args...)
	if code != 0 {
		s.t.Fatalf("%v ended with %d:\n%s", args, code, out)
	}
	return out
}

// deploy deploys twice, with a change in between, so that there are several versions, and
// keeps everything for restore.
func (s *site) deploy() {
	s.t.Helper()
	if s.kind != "folder" {
		s.must("secrets", "init", "--state", s.state)
	}
	s.must("deploy", "page.yml", "--yes")
	s.must("stop", "page.yml", "--yes")
	s.must("start", "page.yml", "--yes")
	s.whole(s.t)
	documents := s.place.keep(s.root)
	files := keepFiles(s.root, s.path("home/.bosh"), func(top string) bool { return top != "local" && top != "cache" })
	s.restore = func(t *testing.T) {
		t.Helper()
		documents(t)
		files(t)
	}
	s.good, s.names = s.parts(), s.place.names(s.t)
}

// again deploys again, after a command that has changed or deleted VMs.
func (s *site) again() {
	s.t.Helper()
	s.end()
	for _, name := range s.place.names(s.t) {
		s.place.remove(s.t, name)
	}
	entries, err := os.ReadDir(s.path("home/.bosh"))
	check(s.t, err)
	for _, e := range entries {
		if e.Name() != "cache" {
			check(s.t, os.RemoveAll(s.path("home/.bosh/"+e.Name())))
		}
	}
	folders, _ := filepath.Glob(s.path("page-state*"))
	for _, name := range folders {
		check(s.t, os.RemoveAll(name))
	}
	s.deploy()
}

// whole checks that all instances run and that nothing is to be done.
func (s *site) whole(t *testing.T) {
	t.Helper()
	if out, code := s.run("status", "page.yml"); code != 0 || !strings.Contains(out, "All is well") {
		t.Errorf("status ended with %d:\n%s", code, out)
	}
	if out, code := s.run("plan", "page.yml"); code != 0 {
		t.Errorf("plan ended with %d:\n%s", code, out)
	}
}

// parts returns what there is now.
func (s *site) parts() parts {
	s.t.Helper()
	p := parts{files: map[string]string{}}
	for _, what := range []string{"vms/vm-*", "disks/disk-*", "stemcells/*"} {
		list, _ := filepath.Glob(s.path("home/.bosh/local/" + what))
		p.cloud = append(p.cloud, list...)
	}
	slices.Sort(p.cloud)
	for _, path := range slices.Concat(filesBelow(s.path("home/.bosh/team")), s.filesOfFolder()) {
		base := filepath.Base(path)
		if isLock(path) || base == "store.json" || strings.Contains(path, "/logs/") {
			continue
		}
		data, err := os.ReadFile(path)
		check(s.t, err)
		p.files[path] = string(data)
	}
	return p
}

// filesOfFolder returns the documents that are files beside the manifest.
func (s *site) filesOfFolder() (list []string) {
	folder, ok := s.place.(*folderPlace)
	if !ok {
		return nil
	}
	for _, name := range folder.names(s.t) {
		list = append(list, s.path(name))
	}
	return list
}
