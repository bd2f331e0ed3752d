//go:build !windows

package cpi

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestStemcell(t *testing.T) {
	t.Parallel()
	mf, err := fs.ReadFile(Stemcell(), "stemcell.MF")
	if err != nil {
		t.Fatal(err)
	}
	image, err := fs.ReadFile(Stemcell(), "image")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(image)
	if want := "sha1: " + hex.EncodeToString(sum[:]); !strings.Contains(string(mf), want) {
		t.Errorf("stemcell.MF has not %s", want)
	}
}

// TestPackaging runs the packaging script as a compilation does.
func TestPackaging(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, Release()); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "local_cpi")
	cmd := exec.Command("bash", "-x", filepath.Join(dir, "packages", "local_cpi", "packaging"))
	cmd.Dir = filepath.Join(dir, "src")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "BOSH_INSTALL_TARGET=" + target}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(target, "share", "NOTICE")); err != nil || len(text) == 0 {
		t.Errorf("%q, %v", text, err)
	}
}

// TestTemplates renders the job with a context that only has what templates may use. It
// needs a ruby on this machine.
func TestTemplates(t *testing.T) {
	t.Parallel()
	ruby, err := exec.LookPath("ruby")
	if err != nil {
		t.Skip("no ruby")
	}
	const driver = `
require 'erb'; require 'json'; require 'yaml'
$values = JSON.parse(ARGV[1])
$defaults = YAML.load_file('spec')['properties']
class Absent; def else; end; end
def p(names, *fallback)
  [names].flatten.each do |name|
    raise "undeclared #{name}" unless $defaults.key?(name)
    value = $values.fetch(name, $defaults[name]['default'])
    return value unless value.nil?
  end
  return fallback[0] unless fallback.empty?
  raise "no #{names}"
end
def if_p(name) = $values.key?(name) ? yield($values[name]) : Absent.new
puts ERB.new(File.read(ARGV[0]), trim_mode: '-').result(binding)
`
	dir := t.TempDir()
	if err := os.CopyFS(dir, Release()); err != nil {
		t.Fatal(err)
	}
	render := func(template, values string) string {
		t.Helper()
		cmd := exec.Command(ruby, "-e", driver, "templates/"+template, values)
		cmd.Dir = filepath.Join(dir, "jobs", "local_cpi")
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return string(text)
	}

	var cfg config
	for values, check := range map[string]func() bool{
		`{}`: func() bool { return cfg.APIVersion == 2 && cfg.Root == "" && cfg.Agent.Blobstore.Provider == "local" },
		`{"agent.mbus":"https://u:p@1.2.3.4:1","registry.host":"h","registry.port":6901,"registry.username":"u","registry.password":"p",
		  "local_cpi.api_version":1,"local_cpi.ssh.port":2222,"local_cpi.ssh.authorized_keys":["k"],"ntp":["t"]}`: func() bool {
			base, err := cfg.Registry.url()
			return err == nil && base.String() == "http://u:p@h:6901" && cfg.APIVersion == 1 && cfg.Agent.MBus == "https://u:p@1.2.3.4:1" &&
				cfg.SSH.Port == 2222 && slices.Equal(cfg.SSH.AuthorizedKeys, []string{"k"}) && slices.Equal(cfg.Agent.NTP, []string{"t"})
		},
		`{"agent.mbus":"https://other","local_cpi.agent.mbus":"https://own","registry.endpoint":"http://x:y@h:1/","registry.port":0}`: func() bool {
			base, err := cfg.Registry.url()
			return err == nil && base.String() == "http://x:y@h:1" && cfg.Agent.MBus == "https://own"
		},
	} {
		cfg = config{}
		text := render("cpi.json.erb", values)
		if err := json.Unmarshal([]byte(text), &cfg); err != nil || !check() {
			t.Errorf("%s gives %s (%v)", values, text, err)
		}
	}

	// bin/cpi is rendered with proxies; one of them tries to end its quotes.
	path := filepath.Join(dir, "cpi")
	text := render("cpi.erb", `{"env.http_proxy":"http://p:1/it's","env.no_proxy":"a,$(touch broken)"}`)
	write(t, path, []byte(text), 0o700)
	program := filepath.Join(dir, "program")
	write(t, program, []byte("#!/bin/bash\nenv; echo \"$@\"\n"), 0o700)
	cmd := exec.Command(path)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "BOOTSTRAP_EXECUTABLE=" + program, "BOSH_JOBS_DIR=/jobs"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"http_proxy=http://p:1/it's", "HTTP_PROXY=http://p:1/it's", "no_proxy=a,$(touch broken)", "plugin cpi --config /jobs/local_cpi/config/cpi.json"} {
		if !slices.Contains(strings.Split(string(out), "\n"), want) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "https_proxy") {
		t.Errorf("a proxy that nobody set:\n%s", out)
	}
}
