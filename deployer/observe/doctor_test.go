package observe

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// examine runs one check of the doctor in an environment.
func examine(t *testing.T, d *doctor, name string, env map[string]string) Check {
	t.Helper()
	d.Env.Getenv = func(name string) string { return env[name] }
	d.Env.Secret = func(...string) {}
	defer func() { d.Env.Route.Close() }()
	for _, c := range diagnoses() {
		if c.name == name {
			v := &verdict{result: CheckOK}
			c.do(d, t.Context(), v)
			return v.check(name)
		}
	}
	t.Fatalf("no check %s", name)
	return Check{}
}

func expect(t *testing.T, c Check, result CheckResult, detail, remedy string) {
	t.Helper()
	if c.Result != result || !strings.Contains(c.Detail, detail) || !strings.Contains(c.Remedy, remedy) {
		t.Errorf("got %+v, want %s, %q, %q", c, result, detail, remedy)
	}
}

func patient() *doctor {
	t := instance.New(instance.NewEnv(instance.Config{}), instance.Options{})
	in := &instance.Inputs{Request: t.Request}
	in.UseManifest(&manifest.Manifest{})
	return &doctor{observer: &observer{Instance: t, in: in}}
}

func TestCheckProxies(t *testing.T) {
	d := patient()
	d.About.MBus = "https://mbus:s3cret@10.0.0.6:6868"
	d.in.Manifest.Releases = []manifest.Release{{URL: "https://u:p@releases.example/r.tgz"}, {URL: "file:///r.tgz"}}
	expect(t, examine(t, d, "proxies", nil), CheckOK, "all connections are direct", "")
	proxy := map[string]string{"https_proxy": "http://u:pw@proxy.example:3128"}
	c := examine(t, d, "proxies", proxy)
	expect(t, c, CheckWarn, "NO_PROXY does not cover 10.0.0.6: other tools, such as the CPI, would connect to the VM through proxy.example:3128", "add 10.0.0.6 to NO_PROXY")
	expect(t, c, CheckWarn, "downloads from releases.example go through proxy.example:3128", "")
	if strings.Contains(c.Detail, "pw") || strings.Contains(c.Detail, "s3cret") {
		t.Errorf("a password is shown: %s", c.Detail)
	}
	proxy["NO_PROXY"] = "10.0.0.0/8,releases.example"
	c = examine(t, d, "proxies", proxy)
	expect(t, c, CheckOK, "downloads from releases.example go directly", "")
	for _, wrong := range []string{"nonsense://x", "http://", "://", "http:// /"} {
		expect(t, examine(t, d, "proxies", map[string]string{"HTTP_PROXY": wrong}), CheckFail, "HTTP_PROXY in the environment is not the URL", "set it to a URL")
	}
	expect(t, examine(t, d, "proxies", map[string]string{"HTTPS_PROXY": "proxy.example:3128", "BOSH_ALL_PROXY": "ssh+socks5://u@jump:22?private-key=/k"}), CheckWarn, "BOSH_ALL_PROXY", "NO_PROXY")
}

func TestCheckRoute(t *testing.T) {
	route := func(env map[string]string, via ...string) Check {
		d := patient() // A new doctor, because a run opens its route only once.
		d.Env.Home = t.TempDir()
		d.Env.Via = via
		return examine(t, d, "route", env)
	}
	expect(t, route(nil), CheckOK, "directly", "")
	expect(t, route(nil, "http://no-jumpbox"), CheckFail, "cannot use --via", "the jumpbox")
	expect(t, route(map[string]string{"BOSH_ALL_PROXY": "socks5://127.0.0.1:1"}), CheckOK, "as BOSH_ALL_PROXY says", "")
}

func TestCheckRegistryAndKey(t *testing.T) {
	d := patient()
	for _, name := range []string{"registry-port", "ssh-key"} {
		without := *d
		without.observer = &observer{Instance: d.Instance}
		expect(t, examine(t, &without, name, nil), CheckSkipped, "no manifest was read", "")
		expect(t, examine(t, d, name, nil), CheckSkipped, "asks for no", "")
	}
	d.About.Registry = &manifest.Registry{}
	expect(t, examine(t, d, "registry-port", nil), CheckOK, "a free port", "")
	d.in.Manifest.CPI.SSHTunnel = &manifest.SSHTunnel{User: "vcap", Host: "h", PrivateKey: "garbage"}
	expect(t, examine(t, d, "ssh-key", nil), CheckFail, "cannot read the private key", "cloud_provider.ssh_tunnel")
	d.in.Manifest.CPI.SSHTunnel = &manifest.SSHTunnel{User: "vcap", Host: "h", Password: "p"}
	expect(t, examine(t, d, "ssh-key", nil), CheckOK, "without a key", "")
}

func TestCheckLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	d := patient()
	expect(t, examine(t, d, "lock", nil), CheckSkipped, "no state file", "")
	d.st, d.StatePath = &state.State{}, path
	expect(t, examine(t, d, "lock", nil), CheckOK, "no run", "")
	f, err := file.Open(t.Context(), path, file.Options{Holder: state.Holder{User: "me", Host: "here", PID: 7, Command: "deploy m.yml", Since: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	expect(t, examine(t, d, "lock", nil), CheckWarn, "me@here, process 7, `bootstrap deploy m.yml`", "wait until")
	if !d.locked {
		t.Error("a run at work is not noticed")
	}
}

// Runs on other machines may have the lock of a store, too.
func TestCheckLockOfTeam(t *testing.T) {
	server := httptest.NewServer(&teamtest.Web{})
	defer server.Close()
	open := func(user string) *team.Store {
		s, err := team.Open(t.Context(), server.URL+"/lab", team.Config{
			Holder: state.Holder{User: user, Host: "there", PID: os.Getpid(), Command: "deploy m.yml", Since: time.Now()},
			Getenv: func(string) string { return "" },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	d := patient()
	d.From.Team = team.CopyOf(t.TempDir(), open("me"))
	d.st, d.StatePath = &state.State{}, d.From.Team.StatePath()
	expect(t, examine(t, d, "lock", nil), CheckOK, "no run", "")
	if _, err := open("ann").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, d, "lock", nil), CheckWarn, "ann@there", "state unlock")
	if !d.locked {
		t.Error("a run at work is not noticed")
	}
}

func TestCheckCPI(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the CPI is a shell script")
	}
	d := patient()
	d.Dir = t.TempDir()
	d.st = &state.State{DirectorID: "d"}
	expect(t, examine(t, d, "cpi", nil), CheckSkipped, "no CPI is installed", "")
	bin := filepath.Join(d.Dir, "jobs", "some_cpi", "bin")
	for _, dir := range []string{bin, filepath.Join(d.Dir, "packages")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.Known = kept.Deployment{CPI: filepath.Join(bin, "cpi"), Jobs: filepath.Join(d.Dir, "jobs"), Packages: filepath.Join(d.Dir, "packages")}
	expect(t, examine(t, d, "cpi", nil), CheckSkipped, "no CPI is installed", "")
	write := func(script string) {
		if err := os.WriteFile(filepath.Join(bin, "cpi"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"PATH": os.Getenv("PATH")}
	write(`echo '{"result":{"api_version":2,"stemcell_formats":["x"]},"error":null,"log":""}'`)
	expect(t, examine(t, d, "cpi", env), CheckOK, "API version 2", "")
	write(`echo no package >&2; exit 3`)
	expect(t, examine(t, d, "cpi", env), CheckFail, "the CPI does not answer", "cpi.log")
}

func TestClockOff(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 10, 7e8, time.UTC)
	for name, c := range map[string]struct{ date, want time.Duration }{
		"same second":        {-700 * time.Millisecond, 0},
		"while it was asked": {300 * time.Millisecond, 0},
		"behind":             {100*time.Second + 300*time.Millisecond, 99*time.Second + 300*time.Millisecond},
		"ahead":              {-400*time.Second - 700*time.Millisecond, -400 * time.Second},
	} {
		if got := (clock{date: at.Add(c.date), asked: at, answer: at.Add(time.Second)}).off(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	d := patient()
	for off, want := range map[time.Duration]CheckResult{0: CheckOK, 2 * time.Minute: CheckWarn, -time.Hour: CheckFail} {
		d.clock = &clock{of: "the agent", date: at.Add(off).Truncate(time.Second), asked: at, answer: at}
		if c := examine(t, d, "clock", nil); c.Result != want {
			t.Errorf("%s: %+v", off, c)
		}
	}
}

func TestCheckModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	d := patient()
	d.Env.Home = filepath.Join(t.TempDir(), ".bosh")
	expect(t, examine(t, d, "modes", nil), CheckSkipped, "does not exist", "")
	dir := filepath.Join(d.Env.Home, "8d6e8e7c-0f0e-4d0a-9f0a-0a0a0a0a0a0a")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, d, "modes", nil), CheckOK, "nobody else", "")
	chmod := func(name string, mode os.FileMode) {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(file, 0o644)
	chmod(dir, 0o755)
	c := examine(t, d, "modes", nil)
	expect(t, c, CheckWarn, "others can look into "+dir, "chmod 700 "+dir)
	expect(t, c, CheckWarn, "keeps others from reading "+file, "chmod 600 "+file)
	chmod(d.Env.Home, 0o777)
	expect(t, examine(t, d, "modes", nil), CheckFail, "others can write to", "chmod go-w "+d.Env.Home)
}

// The time of a server is requested directly if there is no proxy and no jumpbox.
func TestClockOfADownloadServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	d := patient()
	d.Env.Getenv = func(string) string { return "" }
	d.in.Manifest.Releases = []manifest.Release{{URL: server.URL + "/cpi.tgz"}}
	if c := d.askServer(t.Context()); c == nil || c.date.IsZero() {
		t.Errorf("got %v", c)
	}
}
