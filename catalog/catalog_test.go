package catalog

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/artifact/tartest"
	"bootstrap/internal/proxy"
	"bootstrap/manifest/document"
)

func TestCompareVersions(t *testing.T) {
	for _, list := range [][]string{
		{"1", "1.1", "1.2", "1.10", "2"}, {"1.0-alpha", "1.0-rc.1", "1.0-rc.2", "1.0", "1.0+dev.1", "1.0+dev.2", "1.1"},
		{"97.18", "3586.100", "3586.100.1"}, {"1.9.0-build.5", "1.9.0"},
	} {
		for i := range list {
			for j := range list {
				if got := compareVersions(list[i], list[j]); got < 0 != (i < j) || got > 0 != (i > j) {
					t.Errorf("%s, %s: %d", list[i], list[j], got)
				}
			}
		}
	}
	if compareVersions("1.0", "1") != 0 {
		t.Error("1.0 and 1 differ")
	}
	for wanted, version := range map[string]string{"latest": "9", "": "9", "1.latest": "1.7", "1.2": "1.2", "456.latest": "456"} {
		if !fits(wanted, version) {
			t.Errorf("%s does not fit %s", version, wanted)
		}
	}
	if fits("1.latest", "10.1") || fits("1.2", "1.20") {
		t.Error("a version of another line fits")
	}
}

func FuzzCompareVersions(f *testing.F) {
	f.Add("1.0-rc.1+x", "1..2")
	f.Fuzz(func(t *testing.T, a, b string) {
		if compareVersions(a, b) != -compareVersions(b, a) || compareVersions(a, a) != 0 {
			t.Errorf("%q, %q: not an order", a, b)
		}
	})
}

// FuzzIndex reads indexes of hostile servers.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(boshReleases))
	f.Add([]byte(boshStemcells))
	f.Add([]byte("releases: [{name: a, version: 1, url: [b]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []Kind{Release, Stemcell} {
			offers, _, _ := readIndex(data, kind)
			for _, o := range offers {
				if o.version == "" || o.url == "" {
					t.Errorf("%+v", o)
				}
			}
		}
	})
}

// The shapes of https://bosh.io/api/v1/releases/github.com/ORG/NAME and
// https://bosh.io/api/v1/stemcells/NAME.
const (
	boshReleases = `[
{"name":"github.com/acme/zookeeper-release","version":"0.0.10","url":"https://bosh.example/d/github.com/acme/zookeeper-release?v=0.0.10","sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
{"name":"github.com/acme/zookeeper-release","version":"0.0.9","url":"https://bosh.example/d/github.com/acme/zookeeper-release?v=0.0.9","sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709"}]`
	boshStemcells = `[
{"name":"bosh-warden-boshlite-ubuntu-jammy-go_agent","version":"1.990","regular":{"url":"https://bosh.example/r-1.990.tgz","size":1,"md5":"x","sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
{"name":"bosh-warden-boshlite-ubuntu-jammy-go_agent","version":"1.1010","regular":{"url":"https://bosh.example/r-1.1010.tgz","sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709"},"light":{"url":"https://bosh.example/l-1.1010.tgz","sha1":"da39a3ee5e6b4b0d3255bfef95601890afd80709"}}]`
)

// archives writes releases and stemcells into dir.
func archives(t *testing.T, dir string) {
	t.Helper()
	for name, mf := range map[string]string{
		"a.tgz": "name: zookeeper\nversion: 0.0.9\n", "b.tgz": "name: zookeeper\nversion: 0.0.10\n", "other.tar.gz": "name: kafka\nversion: '1'\n",
	} {
		tartest.Write(t, tartest.Tgz(t, tartest.File("release.MF", mf)), dir, name)
	}
	tartest.Write(t, tartest.Tgz(t, tartest.File("stemcell.MF", "name: bosh-x\nversion: '1.7'\noperating_system: ubuntu-jammy\n")), dir, "s.tgz")
}

// find evaluates a manifest with a finder, and returns its releases and stemcells as YAML.
func find(t *testing.T, f *Finder, manifest string) (string, error) {
	t.Helper()
	if err := os.WriteFile(f.Manifest, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Getenv = func(string) string { return "" }
	if f.Dial == nil {
		f.Dial = func(context.Context) (proxy.Dial, error) { return nil, nil }
	}
	var got string
	_, err := document.Read(t.Context(), f.Manifest, document.Options{Find: f.Find}, func(top document.Value) {
		text, err := top.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got = string(text)
	})
	return got, err
}

// A stemcell for compiling is found by its operating system and version, wherever the
// process runs.
func TestFindStemcell(t *testing.T) {
	dir := t.TempDir()
	archives(t, dir)
	t.Chdir(dir)
	f := &Finder{Manifest: "other/m.yml", Getenv: func(string) string { return "" }}
	for source, want := range map[string]string{".": "", "s.tgz": "", "file://s.tgz": "", dir + "/{other}": "there is no file or folder", "a.tgz": "it is the release zookeeper 0.0.9"} {
		e, err := f.FindStemcell(t.Context(), source, "ubuntu-jammy", "1.7")
		if want != "" {
			tartest.MustFail(t, err, "cannot find the stemcell ubuntu-jammy, version 1.7", want)
		} else if err != nil || e.URL != "file://"+filepath.Join(dir, "s.tgz") || !strings.HasPrefix(e.SHA1, "sha256:") {
			t.Errorf("%s: %+v, %v", source, e, err)
		}
	}
	_, err := f.FindStemcell(t.Context(), ".", "ubuntu-jammy", "1.8")
	tartest.MustFail(t, err, "version 1.8", "has only 1.7")
	if e, err := f.FindStemcell(t.Context(), "embedded:local-stemcell", "local", "1"); err != nil || e.URL != "embedded:local-stemcell" {
		t.Errorf("%+v, %v", e, err)
	}
}

const zookeeper = `
releases: [{name: zookeeper, version: latest}, {name: given, version: 3, url: file://given}, {name: kafka, version: 1}]
stemcells: [{alias: default, os: ubuntu-jammy, version: 1.latest}, {alias: same, os: ubuntu-jammy, version: 1.latest}]
`

// What a manifest names without a URL is found in folders, written into the lock file
// with its digest, and taken from there until newer versions are asked for.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	archives(t, filepath.Join(dir, "known"))
	f := &Finder{Manifest: filepath.Join(dir, "m.yml"), Releases: []string{"*=" + filepath.Join(dir, "known")}, Stemcells: []string{"ubuntu-jammy=" + filepath.Join(dir, "known")}}
	got, err := find(t, f, zookeeper)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sha1: sha256:", "known/b.tgz", "known/other.tar.gz", "known/s.tgz", "url: file://given"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
	path := filepath.Join(dir, "m.lock.yml")
	if _, err := os.Stat(path); err == nil {
		t.Error("a lock file is written without Save")
	}
	f.Save = true
	if _, err := find(t, f, zookeeper); err != nil {
		t.Fatal(err)
	}
	locked, err := os.ReadFile(path)
	if err != nil || strings.Count(string(locked), "- name:") != 3 || strings.Contains(string(locked), "given") {
		t.Fatalf("%v\n%s", err, locked)
	}
	tartest.Write(t, tartest.Tgz(t, tartest.File("release.MF", "name: zookeeper\nversion: 0.0.11\n")), dir, "known", "c.tgz")
	again := func(newer func(string) bool, want string, locked bool) {
		t.Helper()
		f.Newer = newer
		if _, err := find(t, f, zookeeper); err != nil || f.Used[0].Version != want || f.Used[0].Locked != locked {
			t.Errorf("%v, %+v", err, f.Used)
		}
	}
	again(nil, "0.0.10", true)
	again(func(name string) bool { return name == "kafka" }, "0.0.10", true)
	again(func(string) bool { return true }, "0.0.11", false)
	again(nil, "0.0.11", true)
	// A newer wish is looked up without being asked for.
	if _, err := find(t, f, strings.Replace(zookeeper, "zookeeper, version: latest", "zookeeper, version: 0.0.9", 1)); err != nil || f.Used[0].Version != "0.0.9" {
		t.Errorf("%v, %+v", err, f.Used)
	}
	// Nothing is written if something is not found.
	before, _ := os.ReadFile(path)
	_, err = find(t, f, strings.NewReplacer("0.0.9", "latest", "kafka, version: 1", "kafka, version: 2").Replace(zookeeper))
	after, _ := os.ReadFile(path)
	tartest.MustFail(t, err, "releases[2]", "cannot find the release kafka, version 2", "has only 1")
	if string(before) != string(after) {
		t.Error("the lock file has changed")
	}
}

// A source for one name also replaces a URL; the digest of the manifest stays if it is
// for the same version.
func TestFindMirror(t *testing.T) {
	dir := t.TempDir()
	archives(t, filepath.Join(dir, "known"))
	tartest.Write(t, nil, dir, "src", "kafka", "jobs", "x")
	f := &Finder{Manifest: filepath.Join(dir, "m.yml"), Releases: []string{"zookeeper=" + filepath.Join(dir, "known"), "*=" + filepath.Join(dir, "src", "{name}")}}
	got, err := find(t, f, "releases: [{name: zookeeper, version: 0.0.9, url: 'https://h/z', sha1: mine}, {name: kafka, version: 7}, {name: far, url: 'https://h/f', sha1: far}]")
	if err != nil || !strings.Contains(got, "known/a.tgz") || !strings.Contains(got, "sha1: mine") || !strings.Contains(got, "src/kafka") || !strings.Contains(got, "https://h/f") {
		t.Errorf("%v\n%s", err, got)
	}
	f.Save = true
	f.Releases = f.Releases[1:]
	if _, err := find(t, f, "releases: [{name: kafka}]"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(LockPath(f.Manifest)); err == nil {
		t.Error("a lock file is written for a folder, which is used as it is")
	}
}

// A source that is one archive has no size in an index: it must not fill the disk, nor hold
// up the run when its server sends nothing any more.
func TestFindInEndlessArchive(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/large.tgz", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow.tgz", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("half of it"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for name, want := range map[string]string{"large": "it is larger than the limit of 1048576 bytes", "slow": "the server sent nothing for 300ms"} {
		f := &Finder{Manifest: filepath.Join(t.TempDir(), "m.yml"), Releases: []string{"*=" + server.URL + "/" + name + ".tgz"}, maxArchive: 1 << 20, maxSilence: 300 * time.Millisecond}
		_, err := find(t, f, "releases: [{name: kafka}]")
		tartest.MustFail(t, err, want)
	}
}

// The public shapes of bosh.io, over HTTPS.
func TestFindInIndex(t *testing.T) {
	mux := http.NewServeMux()
	for path, text := range map[string]string{
		"/api/v1/releases/github.com/acme/zookeeper-release": boshReleases, "/api/v1/stemcells/bosh-warden-boshlite-ubuntu-jammy-go_agent": boshStemcells,
		"/own.yml": "releases: [{name: kafka, version: '2', url: ../k.tgz, sha1: sha256:00}, {name: nothing, version: 3, url: x}]",
		"/bad":     "<html>",
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	server := httptest.NewServer(mux) // plain, because a server of this machine is allowed; a script uses HTTPS
	defer server.Close()
	u := server.URL
	f := &Finder{Manifest: filepath.Join(t.TempDir(), "m.yml"), Save: true,
		Releases:  []string{"zookeeper=" + u + "/api/v1/releases/github.com/acme/{name}-release", "*=" + u + "/own.yml"},
		Stemcells: []string{"*=" + u + "/api/v1/stemcells/bosh-warden-boshlite-{os}-go_agent"},
	}
	got, err := find(t, f, zookeeper[:strings.Index(zookeeper, ", {name: kafka")]+"]\nstemcells: [{alias: a, os: ubuntu-jammy, version: latest}]")
	if err != nil || !strings.Contains(got, "zookeeper-release?v=0.0.10") || !strings.Contains(got, "sha256:e3b0") || !strings.Contains(got, "l-1.1010.tgz") {
		t.Errorf("%v\n%s", err, got)
	}
	got, err = find(t, f, "releases: [{name: kafka, version: 2}]")
	if err != nil || !strings.Contains(got, u+"/k.tgz") {
		t.Errorf("%v\n%s", err, got)
	}
	for manifest, words := range map[string][]string{
		"releases: [{name: nothing, version: 3}]":   {"version 3 has no digest"},
		"releases: [{name: unknown, version: 3}]":   {"has no release unknown"},
		"releases: [{name: zookeeper, version: 1}]": {"has only 0.0.10, 0.0.9"},
		"releases: [{name: bad}]":                   {"is neither a list of releases"},
		"releases: [{name: gone}]":                  {"the server answers 404"},
		"releases: [{name: far}]":                   {"must begin with https://"},
		"releases: [{name: user}]":                  {"must not contain a password"},
	} {
		f.Releases = append(f.Releases, "bad="+u+"/bad", "gone="+u+"/gone", "far=http://192.0.2.1/x", "user=https://u:s3cret@192.0.2.1/x")
		_, err := find(t, f, manifest)
		tartest.MustFail(t, err, words...)
		if strings.Contains(err.Error(), "s3cret") {
			t.Error(err)
		}
	}
	f.Offline = true
	if _, err = find(t, f, "releases: [{name: kafka, version: 2}]"); err != nil {
		t.Errorf("what the lock file has is not found offline: %v", err)
	}
	_, err = find(t, f, "releases: [{name: kafka, version: 3}]")
	tartest.MustFail(t, err, "was not asked", "bootstrap update-lock MANIFEST")
}

// A damaged lock file is refused with what to do.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.lock.yml")
	for content, words := range map[string][]string{
		"releases: [{name: a}]":    {"releases[0].wanted", "update-lock"},
		"releases: [{name: [a]}]":  {"releases[0].name"},
		"nothing: []":              {"nothing: unknown key"},
		"- a":                      {"must be a map"},
		"releases: {a: b":          {"not valid YAML"},
		strings.Repeat("#", 2<<20): {"larger than the limit"},
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadLock(path)
		tartest.MustFail(t, err, append(words, "cannot use the lock file")...)
	}
	entries := []Entry{{Kind: Stemcell, Name: "b: \"\n", Wanted: "w", Source: "s", Version: "0.10", URL: "u", SHA1: "d"}, {Name: "a", Wanted: "1", Source: "s", Version: "1", URL: "u", SHA1: "d"}}
	if err := save(path, "m.yml", entries); err != nil {
		t.Fatal(err)
	}
	lock, err := ReadLock(path)
	if err != nil || len(lock.entries) != 2 {
		t.Fatalf("%v, %+v", err, lock)
	}
	for _, e := range lock.entries {
		w := want{kind: e.Kind, label: e.Name, version: e.Wanted, source: "s"}
		if got, ok := lock.find(w); !ok || got.Version == "" {
			t.Errorf("%+v", got)
		}
	}
}
