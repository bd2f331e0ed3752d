package scaffold

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/deployer/kept"
	"bootstrap/manifest/document"
)

// stand returns a request with a value for every setting, and the source of its files.
// The files of a Director are stand-ins: the real ones are not in this repository.
func stand(t *testing.T, provider, purpose string) (*Request, Source) {
	t.Helper()
	r := &Request{Dir: filepath.Join(t.TempDir(), "env"), Provider: provider, Purpose: purpose}
	r.hide = func(...string) {}
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.settings() {
		switch {
		case s.kind == file:
			r.VarFiles = append(r.VarFiles, s.name+"="+key)
		case s.standard == "" && s.kind != optional:
			r.Vars = append(r.Vars, s.name+"=given for "+s.name)
		}
	}
	from := Source{Fetch: func(_ context.Context, url, digest string) ([]byte, error) {
		text := "[]\n"
		if strings.HasSuffix(url, "/bosh.yml") {
			text = "name: bosh\n"
			for _, s := range r.settings() {
				text += s.name + ": ((" + s.name + "))\n"
			}
			text += "networks:\n- {name: default, subnets: [{dns: []}]}\nresource_pools:\n- {name: vms, stemcell: {}}\n"
		}
		return []byte(text), nil
	}}
	return r, from
}

func (r *Request) complete(t *testing.T, from Source) *Result {
	t.Helper()
	result, err := (&questions{}).complete(t.Context(), r, from)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

var mark = regexp.MustCompile(`{{|<no value>`)

// inputs returns the inputs in bootstrap.yml, read as text: each operation in use comes
// before those in comments.
func inputs(t *testing.T, r *Request, more ...string) (string, document.Options) {
	t.Helper()
	opts := document.Options{VarsStore: filepath.Join(r.Dir, "creds.yml"), Stdin: strings.NewReader("")}
	var manifest, key string
	text, err := os.ReadFile(filepath.Join(r.Dir, "bootstrap.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		name, value, _ := strings.Cut(line, ":")
		entry, isEntry := strings.CutPrefix(line, "- ")
		switch {
		case strings.HasPrefix(line, "#"):
		case isEntry && key == "ops_files":
			opts.Ops = append(opts.Ops, filepath.Join(r.Dir, entry))
		case isEntry && key == "vars_files":
			opts.VarsFiles = append(opts.VarsFiles, filepath.Join(r.Dir, entry))
		case strings.HasPrefix(line, "  ") && key == "var_files":
			opts.VarFiles = append(opts.VarFiles, strings.TrimSpace(name)+"="+filepath.Join(r.Dir, strings.Trim(value, ` "`)))
			if path := strings.Trim(value, ` "`); filepath.IsAbs(path) {
				opts.VarFiles[len(opts.VarFiles)-1] = strings.TrimSpace(name) + "=" + path
			}
		case name == "manifest":
			manifest = filepath.Join(r.Dir, strings.TrimSpace(value))
		default:
			key = name
		}
	}
	opts.Ops = append(opts.Ops, more...)
	return manifest, opts
}

// For every provider and purpose, the manifest is complete with the given values, with
// and without each operation, and every given value is used.
func TestEveryProviderAndPurpose(t *testing.T) {
	for _, provider := range providers() {
		for _, purpose := range purposes() {
			t.Run(provider+" "+purpose, func(t *testing.T) {
				t.Parallel()
				r, from := stand(t, provider, purpose)
				if provider == "local" && purpose == director {
					_, err := (&questions{}).complete(t.Context(), r, from)
					if err == nil || !strings.Contains(err.Error(), "choose --provider docker") {
						t.Errorf("a Director with the embedded CPI: %v", err)
					}
					return
				}
				result := r.complete(t, from)
				check := func(more ...string) {
					t.Helper()
					manifest, opts := inputs(t, r, more...)
					// Only some operations need these values.
					opts.Vars = []string{"external_ip=34.1.1.1", "service_account=a@b", "vcenter_rp=rp", "vcenter_ca_cert=x", "openstack_ca_cert=x", "docker_ca=x", "docker_cert=x", "docker_key=x"}
					opts.Generate = document.Plan
					doc, err := document.Evaluate(t.Context(), manifest, opts)
					if err != nil {
						t.Errorf("%v: %v", more, err)
						return
					}
					for _, m := range doc.Missing {
						t.Errorf("%v: %s", more, m.Message)
					}
					for _, name := range doc.Unused {
						known := slices.ContainsFunc(r.settings(), func(s *setting) bool { return s.name == name && s.kind != optional })
						if known && len(more) == 0 {
							t.Errorf("the manifest has no use for %s", name)
						}
					}
				}
				check()
				for _, name := range result.Files {
					if strings.HasPrefix(name, "operations/") {
						check(filepath.Join(r.Dir, name))
					}
				}
				for _, name := range result.Files {
					text, err := os.ReadFile(filepath.Join(r.Dir, name))
					if err != nil {
						t.Fatal(err)
					}
					if mark.Match(text) {
						t.Errorf("%s has a mark that nothing replaced:\n%s", name, text)
					}
				}
				info, err := os.Stat(filepath.Join(r.Dir, "secrets.yml"))
				if hasSecrets := slices.ContainsFunc(r.settings(), func(s *setting) bool { return s.kind == secret }); hasSecrets {
					if err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("secrets.yml: %v %v", info, err)
					}
				} else if err == nil {
					t.Error("secrets.yml without secrets")
				}
			})
		}
	}
}

// After any error no file is written, and existing ones are kept.
func TestNothingIsWritten(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	no := Source{
		Fetch: func(context.Context, string, string) ([]byte, error) { return nil, errors.New("no such server") },
		Release: func(context.Context, string, string) (*artifact.Release, error) {
			return &artifact.Release{Name: "r", Jobs: []*artifact.Job{{Name: "a"}, {Name: "b"}}}, nil
		},
	}
	for want, r := range map[string]*Request{
		"give --var project_id=VALUE --var-file gcp_credentials_json=PATH":            {Provider: "gcp"},
		"no such server; nothing was written; --mirror":                               {Provider: "docker", Purpose: director},
		"there is no such variable for local and release, only agent_port":            {Vars: []string{"x=1"}},
		"--var gcp_credentials_json: give this variable with --var-file":              {Provider: "gcp", Vars: []string{"gcp_credentials_json=1"}},
		"gcp_credentials_json: cannot read the file":                                  {Provider: "gcp", VarFiles: []string{"gcp_credentials_json=" + key + "x"}},
		`the name "a b" is not possible`:                                              {Name: "a b"},
		"are for --purpose release, and not for jumpbox":                              {Purpose: "jumpbox", Release: "x"},
		"--mirror is for --purpose director, and not for release":                     {Mirror: "https://example.com"},
		"--job and --sha1 are for a release":                                          {Jobs: []string{"x"}},
		key + "x: no such file":                                                       {Release: key + "x"},
		"give the digest of the release with --sha1":                                  {Release: "https://example.com/r.tgz"},
		"the release r has several jobs: choose with --job":                           {Release: key},
		"--job c: the release r has no such job, only a, b":                           {Release: key, Jobs: []string{"c"}},
		`--var internal_cidr: "10.0.0" is not a range such as 10.0.0.0/24`:            {Provider: "aws", Vars: []string{"internal_cidr=10.0.0"}},
		`--var external_ip: "vm" is not an IP address`:                                {Provider: "aws", Vars: []string{"external_ip=vm"}},
		"secrets.yml already exists and nothing was written; name another folder, or": {Provider: "vsphere", Incomplete: true},
	} {
		t.Run(want, func(t *testing.T) {
			r.Dir, r.hide = filepath.Join(t.TempDir(), "a", "env"), func(...string) {}
			before := 0
			if strings.Contains(want, "already exists") {
				before = 1
				if err := os.MkdirAll(r.Dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(r.Dir, "secrets.yml"), []byte("kept"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := (&questions{}).complete(t.Context(), r, no)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(r.Dir); len(left) != before {
				t.Errorf("left behind: %v", left)
			}
			if text, _ := os.ReadFile(filepath.Join(r.Dir, "secrets.yml")); before == 1 && string(text) != "kept" {
				t.Errorf("secrets.yml was overwritten with %q", text)
			}
		})
	}
}

// If a write fails half way, earlier writes are undone, including overwritten files.
func TestUndo(t *testing.T) {
	r := &Request{Dir: t.TempDir(), Force: true}
	old := filepath.Join(r.Dir, "old")
	if err := os.WriteFile(old, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A file cannot be written below a file.
	err := r.write([]*output{{"old", "after", 0o600}, {"new/a", "", 0o600}, {"new/a/b", "", 0o600}})
	if err == nil || !strings.Contains(err.Error(), "cannot write") {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(old); string(text) != "before" {
		t.Errorf("old has %q", text)
	}
	if info, err := os.Stat(old); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("old has another mode: %v, %v", info, err)
	}
	if left, _ := os.ReadDir(r.Dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// A symbolic link is never followed or replaced without --force, and with it only regular
// files are overwritten.
func TestLinks(t *testing.T) {
	for _, to := range []string{"nowhere", "file", "."} {
		dir := t.TempDir()
		target := filepath.Join(dir, "file")
		if err := os.WriteFile(target, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &Request{Dir: filepath.Join(dir, "env")}
		if err := os.Mkdir(r.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, to), filepath.Join(r.Dir, "vars.yml")); err != nil {
			t.Fatal(err)
		}
		all := []*output{{"bootstrap.yml", "", 0o600}, {"vars.yml", "after", 0o600}}
		err := r.write(all)
		if exists := (*ExistsError)(nil); !errors.As(err, &exists) || len(exists.Paths) != 1 {
			t.Errorf("a link to %s: got %v", to, err)
		}
		r.Force = true
		if err := r.write(all); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("with --force, a link to %s: got %v", to, err)
		}
		if left, _ := os.ReadDir(r.Dir); len(left) != 1 || left[0].Type() != os.ModeSymlink {
			t.Errorf("a link to %s: left is %v", to, left)
		}
		if text, _ := os.ReadFile(target); string(text) != "before" {
			t.Errorf("a link to %s: its target has %q", to, text)
		}
	}
}

// A Director's files have the digests in this program. They come from the repository and
// commit in bootstrap.yml's comment and SHA256SUMS.
func TestForeignFiles(t *testing.T) {
	for _, provider := range providers()[1:] {
		r, from := stand(t, provider, director)
		asked := map[string]string{}
		fetch := from.Fetch
		from.Fetch = func(ctx context.Context, url, digest string) ([]byte, error) {
			asked[url] = digest
			return fetch(ctx, url, digest)
		}
		r.Mirror = "http://mirror.example/"
		r.complete(t, from)
		text, err := os.ReadFile(filepath.Join(r.Dir, "bosh-deployment/SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range slices.Sorted(maps.Keys(asked)) {
			rest, ok := strings.CutPrefix(address, "http://mirror.example/cloudfoundry/bosh-deployment/")
			if !ok {
				continue
			}
			commit, path, _ := strings.Cut(rest, "/")
			line := strings.TrimPrefix(asked[address], "sha256:") + "  " + path + "\n"
			if len(commit) != 40 || len(line) < 66 || !strings.Contains(string(text), line) || !strings.Contains(string(text), commit) {
				t.Errorf("%s: %s is not in SHA256SUMS:\n%s", provider, address, text)
			}
		}
		if len(asked) < 6 && provider != "incus" {
			t.Errorf("%s: only %v", provider, asked)
		}
	}
}

// Texts stay texts in YAML, and numbers and lists are read as such.
func TestSettingYAML(t *testing.T) {
	for _, c := range []struct {
		kind        kind
		value, want string
	}{
		{text, "eu-west-1", "eu-west-1"},
		{text, "10.0.0.0/24", "10.0.0.0/24"},
		{text, "https://os:5000/v3", "https://os:5000/v3"},
		{text, "true", "true"},
		{text, "6868", "6868"},
		{text, "0755", `"0755"`},
		{text, "yes", `"yes"`},
		{text, "1.10", `"1.10"`},
		{text, "1:30", `"1:30"`},
		{text, "2026-01-01", `"2026-01-01"`},
		{text, "VM Network", "VM Network"},
		{text, "^ds1$", `"^ds1$"`},
		{text, `a"b#c: d`, `"a\"b#c: d"`},
		{text, "a: b", `"a: b"`},
		{secret, "p{w}&*!%", `"p{w}\u0026*!%"`},
		{secret, "12345678", `"12345678"`},
		{secret, "true", `"true"`},
		{list, "a,b c", "[a, b c]"},
		{list, "[a, 1]", "[a, 1]"},
	} {
		if got := (&setting{kind: c.kind}).yaml(c.value); got != c.want {
			t.Errorf("%s: got %s, want %s", c.value, got, c.want)
		}
	}
}

// The digest of a file of a public repository is its SHA-256.
func TestDigestsAreSHA256(t *testing.T) {
	for _, provider := range providers() {
		for _, f := range foreignFiles(read(director)["source"] + read(provider)["director"] + read(provider)["director later"]) {
			if raw, err := hex.DecodeString(f.sha256); err != nil || len(raw) != sha256.Size {
				t.Errorf("%s %s: %q", provider, f.path, f.sha256)
			}
		}
	}
}

// A zone is proposed in the given region, if the name of the proposed zone begins with
// that of its region.
func TestProposedZone(t *testing.T) {
	for _, c := range []struct{ provider, region, zone string }{
		{"aws", "", "us-east-1a"},
		{"aws", "eu-west-3", "eu-west-3a"},
		{"openstack", "Two", "nova"},
	} {
		r := &Request{Provider: c.provider, Purpose: release}
		if c.region != "" {
			r.Vars = []string{"region=" + c.region}
		}
		if err := r.prepare(t.Context(), Source{}); err != nil {
			t.Fatal(err)
		}
		if r.fillIn(); r.values["az"] != c.zone {
			t.Errorf("%s %s: %q", c.provider, c.region, r.values["az"])
		}
	}
}

// Addresses are proposed in the given range, at the same position as in the proposed
// range.
func TestProposedAddresses(t *testing.T) {
	for _, c := range []struct{ provider, cidr, gateway, ip string }{
		{"aws", "10.0.0.0/24", "10.0.0.1", "10.0.0.6"},
		{"aws", "172.31.16.0/20", "172.31.16.1", "172.31.16.6"},
		{"docker", "192.168.9.128/25", "192.168.9.129", "192.168.9.139"},
		{"aws", "10.0.0.0/30", "10.0.0.1", ""},
		{"aws", "fd00::/64", "", ""},
	} {
		r := &Request{Provider: c.provider, Purpose: release, Vars: []string{"internal_cidr=" + c.cidr}}
		if err := r.prepare(t.Context(), Source{}); err != nil {
			t.Fatal(err)
		}
		r.fillIn()
		if r.values["internal_gw"] != c.gateway || r.values["internal_ip"] != c.ip {
			t.Errorf("%s: gateway %q, address %q", c.cidr, r.values["internal_gw"], r.values["internal_ip"])
		}
	}
}

// After the first file that cannot be fetched, no other is tried: each attempt may take
// minutes.
func TestFirstFailureEnds(t *testing.T) {
	r, from := stand(t, "docker", director)
	asked := 0
	from.Fetch = func(context.Context, string, string) ([]byte, error) {
		asked++
		return nil, errors.New("no network")
	}
	if _, err := (&questions{}).complete(t.Context(), r, from); err == nil || asked != 1 {
		t.Errorf("%d files were asked for: %v", asked, err)
	}
}

// Git ignores every file with secrets that init or a deploy writes, and a key in the folder.
func TestSecretsAreIgnored(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	r, from := stand(t, "gcp", release)
	key := filepath.Join(r.Dir, "account.json")
	if err := errors.Join(os.Mkdir(r.Dir, 0o700), os.WriteFile(key, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r.VarFiles = []string{"gcp_credentials_json=" + key}
	r.complete(t, from)
	if out, err := exec.Command("git", "init", "-q", r.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"creds.yml", "creds.yml.previous", ".creds.yml1234", "secrets.yml", "jumpbox.key", "account.json"} {
		if out, err := exec.Command("git", "-C", r.Dir, "check-ignore", "-q", name).CombinedOutput(); err != nil {
			t.Errorf("git would commit %s: %v, %s", name, err, out)
		}
	}
}

// A file of a mirror in a folder is compared with its digest, like a downloaded one.
func TestVerified(t *testing.T) {
	at := filepath.Join(t.TempDir(), "uaa.yml")
	if err := os.WriteFile(at, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := "sha256:" + hex.EncodeToString(sha256.New().Sum(nil))
	if text, err := verified(at, sum); err == nil || !strings.Contains(err.Error(), "its digest is sha256:2cf24dba") {
		t.Errorf("got %q, %v", text, err)
	}
	of := sha256.Sum256([]byte("hello"))
	if text, err := verified(at, "sha256:"+hex.EncodeToString(of[:])); err != nil || string(text) != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
}

// If another environment on this machine has one of the ports, the same number is added
// to all ports; those of the environment in the folder itself stay.
func TestPorts(t *testing.T) {
	dir := t.TempDir()
	record := func(id, folder, port string) {
		t.Helper()
		d := kept.Deployment{Manifest: filepath.Join(dir, folder, "manifest.yml"), MBus: "https://a:b@127.0.0.1:" + port, Local: "local"}
		if err := kept.At(filepath.Join(dir, id)).SetDeployment(d); err != nil {
			t.Fatal(err)
		}
	}
	ports := func(purpose, folder string) (agent, other int) {
		r := &Request{Provider: "local", Purpose: purpose, Dir: filepath.Join(dir, folder)}
		r.choosePorts(t.Context(), dir)
		for _, s := range r.settings() {
			if s.name == "agent_port" {
				agent = number(r.proposed(s)) - 7868
			} else if s.isPort() {
				other = number(r.proposed(s)) - 7822
			}
		}
		if purpose == release {
			other = number(regexp.MustCompile(`port: (\d+)`).FindStringSubmatch(r.jobEntries())[1]) - number(pagePort)
		}
		return agent, other
	}
	record("one", "one", "7868")
	record("two", "two", "7870")
	for _, purpose := range []string{release, "jumpbox"} {
		if agent, other := ports(purpose, "new"); agent < 1 || agent == 2 || other != agent {
			t.Errorf("%s: the ports moved by %d and %d", purpose, agent, other)
		}
		if agent, other := ports(purpose, "two"); agent != 2 || other != 2 {
			t.Errorf("%s: the ports of an environment moved to %d and %d", purpose, agent, other)
		}
	}
	before, _ := ports(release, "new")
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(number(pagePort)+before))
	if err != nil {
		t.Skip(err) // another process has taken it since
	}
	defer l.Close()
	if after, _ := ports(release, "new"); after <= before {
		t.Errorf("somebody listens at the port of the page, and the ports moved from %d to %d", before, after)
	}
}
