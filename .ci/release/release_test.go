package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"go.yaml.in/yaml/v3"
)

// sh runs a command and returns what it prints.
func sh(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, out, errs.Bytes())
	}
	return string(out)
}

// program returns a program to release: the file PROGRAM, as make build makes it, or a
// program that is built for this test.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PROGRAM")
	if path == "" {
		path = filepath.Join(t.TempDir(), "bootstrap")
		sh(t, "../..", "go", "build", "-trimpath", "-o", path, ".")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// package1 writes a Debian package for the container image. Programs of real packages are
// tried by hand.
func package1(t *testing.T, dir, name, form string, contents map[string]string) {
	t.Helper()
	info := &nfpm.Info{Name: name, Arch: "amd64", Version: "1:2.0+x", VersionSchema: "none", Description: "for a test", MTime: time.Unix(1e9, 0)}
	info.Deb.Compression = form
	for path, text := range contents {
		source := filepath.Join(t.TempDir(), "content")
		if to, isLink := strings.CutPrefix(text, "-> "); isLink {
			info.Contents = append(info.Contents, &files.Content{Source: to, Destination: path, Type: files.TypeSymlink})
			continue
		}
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		info.Contents = append(info.Contents, &files.Content{Source: source, Destination: path, FileInfo: &files.ContentFileInfo{Mode: 0o755}})
	}
	err := create(filepath.Join(dir, name+".deb"), func(to io.Writer) error { return deb.Default.Package(nfpm.WithDefaults(info), to) })
	if err != nil {
		t.Fatal(err)
	}
}

// A release that is made in another folder has the same bytes, and the tools of each
// format find its content.
func TestRelease(t *testing.T) {
	bin := program(t)
	work := t.TempDir()
	p := platform{"linux", runtime.GOARCH}
	pages, notice, debs := filepath.Join(work, "pages"), filepath.Join(work, "NOTICE"), filepath.Join(work, "debs")
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	sh(t, "../..", "go", "run", "./cmd/pages", pages)
	if err := os.WriteFile(notice, []byte("what is embedded\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, os.MkdirAll(filepath.Join(debs, p.arch), 0o755))
	package1(t, filepath.Join(debs, p.arch), "tools", "xz", map[string]string{"/usr/bin/tool": "#!/bin/sh\n", "/usr/bin/other": "-> tool", "/usr/share/man/man1/tool.1": ".TH\n", "/usr/share/doc/tools/copyright": "all\n", "/usr/share/doc/tools/README": "x\n"})
	package1(t, filepath.Join(debs, p.arch), "authorities", "zstd", map[string]string{"/usr/share/ca-certificates/b/b.crt": "B", "/usr/share/ca-certificates/b/a.crt": "A\n"})

	var outs []string
	for _, dir := range []string{"one", "another/folder"} {
		in := filepath.Join(work, dir, "programs")
		out := filepath.Join(work, dir, "dist")
		must(t, errors.Join(os.MkdirAll(filepath.Join(in, p.String()), 0o755), os.MkdirAll(out, 0o755)))
		data, err := os.ReadFile(bin)
		must(t, errors.Join(err, os.WriteFile(filepath.Join(in, p.String(), "bootstrap"), data, 0o700)))
		must(t, run([]string{
			"-programs", in, "-pages", pages, "-notice", notice, "-source", "../..", "-debs", debs, "-out", out, "-url", "https://example.com/v1/",
			"-modules", strings.TrimSpace(sh(t, ".", "go", "env", "GOMODCACHE")), "-goroot", strings.TrimSpace(sh(t, ".", "go", "env", "GOROOT")),
		}))
		outs = append(outs, out)
	}
	out := outs[0]
	same(t, out, outs[1])
	name := func(end string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(out, "*"+end))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d files *%s, %v", len(found), end, err)
		}
		return found[0]
	}
	version := regexp.MustCompile(`bootstrap-(.*)-linux-`).FindStringSubmatch(filepath.Base(name(".tar.gz")))[1]

	t.Run("archive", func(t *testing.T) {
		to := t.TempDir()
		sh(t, to, "tar", "xzf", name(".tar.gz"))
		dir := filepath.Join(to, "bootstrap-"+version+"-"+p.String())
		if got, want := sh(t, dir, "./bootstrap", "--version"), sh(t, ".", bin, "--version"); got != want {
			t.Errorf("the program in the archive is %s, not %s", got, want)
		}
		for _, file := range []string{"README.md", "NOTICE", "docs/json.md", "man/man1/bootstrap-deploy.1", "completions/_bootstrap", "bootstrap.cdx.json"} {
			if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Mode().Perm() != 0o644 || info.ModTime().Unix() != 1790000000 {
				t.Errorf("%s: %v, %v", file, info, err)
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "NOTICE"))
		if err != nil || !strings.HasPrefix(string(text), "what is embedded\n") || !strings.Contains(string(text), "==== github.com/spf13/cobra v") {
			t.Errorf("the notices: %.200s, %v", text, err)
		}
	})
	t.Run("completion", func(t *testing.T) {
		to := t.TempDir()
		sh(t, to, "tar", "xzf", name(".tar.gz"), "--strip-components=1")
		complete(t, to)
	})
	t.Run("deb", func(t *testing.T) {
		needs(t, "dpkg-deb")
		if got := sh(t, ".", "dpkg-deb", "-f", name(".deb"), "Package", "Version", "Depends"); !regexp.MustCompile(`^Package: bootstrap\nVersion: \d[^ ]*-1\nDepends: bash\n$`).MatchString(got) {
			t.Errorf("%q", got)
		}
		installed(t, sh(t, ".", "dpkg-deb", "-c", name(".deb")), "-rwxr-xr-x root/root", "/usr/share/zsh/vendor-completions/_bootstrap")
	})
	t.Run("rpm", func(t *testing.T) {
		needs(t, "rpm")
		if got := sh(t, ".", "rpm", "-qp", "--qf", "%{NAME} %{RELEASE} %{BUILDHOST} [%{REQUIRENAME} ]", name(".rpm")); got != "bootstrap 1 localhost bash " {
			t.Errorf("%q", got)
		}
		installed(t, sh(t, ".", "rpm", "-qplv", name(".rpm")), "-rwxr-xr-x", "/usr/share/zsh/site-functions/_bootstrap")
		if got := sh(t, ".", "rpm", "-K", "--nosignature", name(".rpm")); !strings.Contains(got, "digests OK") {
			t.Error(got)
		}
	})
	t.Run("apk", func(t *testing.T) {
		if got := sh(t, ".", "tar", "xzOf", name(".apk"), ".PKGINFO"); !regexp.MustCompile(`(?m)^pkgver = \d+\.\d+\.\d+(_(alpha|beta|pre|rc)\d*)?-r1$`).MatchString(got) || !strings.Contains(got, "\ndepend = bash\n") {
			t.Error(got)
		}
		installed(t, sh(t, ".", "tar", "tvzf", name(".apk")), "-rwxr-xr-x root/root", "usr/share/zsh/site-functions/_bootstrap")
	})
	t.Run("checksums", func(t *testing.T) {
		if got := strings.Count(sh(t, out, "sha256sum", "-c", "SHA256SUMS"), ": OK\n"); got != 8 {
			t.Errorf("%d files have the checksums that are written", got)
		}
	})
	t.Run("components", func(t *testing.T) { components(t, name(p.String()+".cdx.json"), bin) })
	t.Run("image", func(t *testing.T) { image(t, name("image.tar"), p.arch) })
	t.Run("action", func(t *testing.T) { action(t, out, version, p) })
	t.Run("formula", func(t *testing.T) {
		sum, err := digest(name(".tar.gz"))
		must(t, err)
		text, err := os.ReadFile(name(".rb"))
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("url \"https://example.com/v1/%s\"\n      sha256 \"%s\"\n", filepath.Base(name(".tar.gz")), sum)) {
			t.Errorf("%v: %s", err, text)
		}
		needs(t, "ruby")
		sh(t, ".", "ruby", "-c", name(".rb"), "../../Formula/bootstrap.rb")
	})
}

// complete returns the completions of bash for a command line, with the script and the
// program in a folder.
func complete(t *testing.T, dir string) {
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		t.Skip("there is no bash-completion")
	}
	work := t.TempDir()
	for name, text := range map[string]string{"bosh.yml": "name: x\nreleases: []\n", "vars.yml": "a: b\n", "picture.jpg": "x", "fleet.yml": "members:\n- {name: one, manifest: bosh.yml}\n"} {
		must(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o644))
	}
	const script = `source "$1/completions/bootstrap.bash"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_KEY=9
read -ra COMP_WORDS <<<"$2"
[[ $2 != *" " ]] || COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_bootstrap 2>/dev/null
echo "${COMPREPLY[*]}"`
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("HOME", work)
	for line, want := range map[string]string{
		"bootstrap dep": "deploy", "bootstrap deploy ": "bosh.yml", "bootstrap fleet plan ": "fleet.yml",
		"bootstrap fleet plan fleet.yml --only o": "outdated one", "bootstrap deploy bosh.yml -l v": "vars.yml",
	} {
		if got := strings.TrimSpace(sh(t, work, "bash", "-c", "source "+library+"\n"+script, "bash", dir, line)); got != want {
			t.Errorf("%s: %s, not %s", line, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needs(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("there is no %s", tool)
	}
}

// same compares two folders of files.
func same(t *testing.T, a, b string) {
	t.Helper()
	list, err := os.ReadDir(a)
	must(t, err)
	other, err := os.ReadDir(b)
	must(t, err)
	if len(list) != len(other) {
		t.Errorf("%d and %d files", len(list), len(other))
	}
	for _, e := range list {
		x, err := os.ReadFile(filepath.Join(a, e.Name()))
		must(t, err)
		y, err := os.ReadFile(filepath.Join(b, e.Name()))
		must(t, err)
		if !bytes.Equal(x, y) {
			t.Errorf("%s has other bytes when it is made again", e.Name())
		}
	}
}

// installed checks that the listing of a package's tool has all files that the package
// must install.
func installed(t *testing.T, listing, program, zsh string) {
	t.Helper()
	for _, want := range []string{
		"(?m)^" + regexp.QuoteMeta(program) + ` .*usr/bin/bootstrap$`, regexp.QuoteMeta(zsh) + "\n",
		`usr/share/bash-completion/completions/bootstrap\n`, `usr/share/fish/vendor_completions.d/bootstrap.fish\n`,
		`usr/share/man/man1/bootstrap-deploy.1.gz\n`, `usr/share/doc/bootstrap/NOTICE\n`, `usr/share/doc/bootstrap/docs/json.md\n`,
	} {
		if !regexp.MustCompile(want).MatchString(listing) {
			t.Errorf("the package has no %s:\n%s", want, listing)
		}
	}
}

func components(t *testing.T, path, bin string) {
	var bom struct {
		BOMFormat    string
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component struct {
				Hashes []struct{ Content string }
			}
		}
		Components []struct{ Name, Version, Purl string }
	}
	must(t, readJSON(path, &bom))
	sum, err := digest(bin)
	must(t, err)
	if bom.BOMFormat != "CycloneDX" || bom.SerialNumber != "" || bom.Metadata.Timestamp != "2026-09-21T14:13:20Z" || bom.Metadata.Component.Hashes[0].Content != sum {
		t.Errorf("%+v", bom)
	}
	var names []string
	for _, c := range bom.Components {
		names = append(names, c.Name)
	}
	listed := sh(t, ".", "go", "version", "-m", bin)
	for _, dep := range regexp.MustCompile(`(?m)^\tdep\t(\S+)`).FindAllStringSubmatch(listed, -1) {
		if !slices.Contains(names, dep[1]) {
			t.Errorf("%s is not listed", dep[1])
		}
	}
	if !slices.Contains(names, "std") {
		t.Error("the standard library is not listed")
	}
}

// image unpacks the image as an engine does, and checks the files of a container.
func image(t *testing.T, path, arch string) {
	dir, root := t.TempDir(), t.TempDir()
	sh(t, dir, "tar", "xf", path)
	blob := func(digest string, to any) {
		t.Helper()
		must(t, readJSON(filepath.Join(dir, "blobs", strings.Replace(digest, ":", "/", 1)), to))
	}
	type descriptor struct {
		Digest      string
		MediaType   string
		Annotations map[string]string
		Platform    struct{ OS, Architecture string }
	}
	var outer, index struct{ Manifests []descriptor }
	must(t, readJSON(filepath.Join(dir, "index.json"), &outer))
	blob(outer.Manifests[0].Digest, &index)
	if m := index.Manifests; len(m) != 1 || m[0].Platform.OS != "linux" || m[0].Platform.Architecture != arch || outer.Manifests[0].Annotations["org.opencontainers.image.ref.name"] == "" {
		t.Fatalf("%+v, %+v", outer, index)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	blob(index.Manifests[0].Digest, &manifest)
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	blob(manifest.Config.Digest, &config)
	if c := config.Config; config.Architecture != arch || c.User != "1000:1000" || !slices.Equal(c.Entrypoint, []string{"/usr/bin/bootstrap"}) || !strings.Contains(c.Labels["bootstrap.debian-packages"], "tools=1:2.0+x@sha256:") {
		t.Errorf("%+v", config)
	}
	var load []dockerLoad
	must(t, readJSON(filepath.Join(dir, "manifest.json"), &load))
	if len(load) != 1 || load[0].Config != "blobs/"+strings.Replace(manifest.Config.Digest, ":", "/", 1) || len(load[0].Layers) != len(manifest.Layers) {
		t.Errorf("%+v", load)
	}
	owners := map[string]string{}
	for _, l := range manifest.Layers {
		layer := filepath.Join(dir, "blobs", strings.Replace(l.Digest, ":", "/", 1))
		sh(t, root, "tar", "xzf", layer)
		for name, h := range headers(t, layer) {
			owners[name] = fmt.Sprintf("%d:%d %o", h.Uid, h.Gid, h.Mode)
		}
	}
	for name, want := range map[string]string{"tmp/": "0:0 1777", "work/": "1000:1000 755", "home/bootstrap/": "1000:1000 755", "usr/bin/bootstrap": "0:0 755"} {
		if owners[name] != want {
			t.Errorf("%s: %s, not %s", name, owners[name], want)
		}
	}
	for name, want := range map[string]string{"etc/ssl/certs/ca-certificates.crt": "A\nB\n", "usr/bin/other": "#!/bin/sh\n", "usr/share/doc/tools/copyright": "all\n"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"usr/share/man/man1/tool.1", "usr/share/doc/tools/README"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s is in the image", name)
		}
	}
	if got := sh(t, ".", filepath.Join(root, "usr/bin/bootstrap"), "version", "--json"); !json.Valid([]byte(strings.SplitN(got, "\n", 2)[0])) {
		t.Error(got)
	}
}

// action runs the steps of this repository's action as a runner does, with a server that
// has the release.
func action(t *testing.T, out, version string, p platform) {
	var file struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				ID, Shell, Run, If string
				Env                map[string]string
			}
		}
	}
	data, err := os.ReadFile("../../action.yml")
	must(t, errors.Join(err, yaml.Unmarshal(data, &file)))
	if len(file.Runs.Steps) != 2 {
		t.Fatalf("%+v", file)
	}
	bad := t.TempDir()
	must(t, os.CopyFS(bad, os.DirFS(out)))
	archive := "bootstrap-" + version + "-" + p.String() + ".tar.gz"
	must(t, os.WriteFile(filepath.Join(bad, archive), []byte("another one"), 0o644))
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	tampered := httptest.NewServer(http.FileServer(http.Dir(bad)))
	defer tampered.Close()
	for _, c := range []struct {
		name, url, version, arch, args string
		want                           string // part of the output of the steps
		fails                          bool
	}{
		{"install", server.URL, version, "", "", "formats   state 1", false},
		{"run", server.URL + "/", version, "", "explain 64", "Exit code 64", false},
		{"other bytes", tampered.URL, version, "", "version", archive + " is not what SHA256SUMS says", true},
		{"other version", server.URL, "v9.9.9", "", "version", "cannot download " + server.URL + "/bootstrap-v9.9.9-", true},
		{"other processor", server.URL, version, "ARM", "version", "no bootstrap for the processor ARM", true},
		{"a step fails", server.URL, version, "", "validate nowhere.yml", "nowhere.yml", true},
		{"a step fails and is no shell", server.URL, version, "", "explain 64;touch $HOME/made\n$(touch $HOME/made) \"`touch $HOME/made`\"", "", true},
		{"no version", server.URL, "main/$(touch $HOME/made)\n::warning::x", "", "", "is not a version, such as v1.2.3", true},
		{"no address", server.URL + "/\";touch $HOME/made;\"\n::warning::x", version, "", "", "cannot download", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			work := t.TempDir()
			arch := cmp.Or(c.arch, map[string]string{"amd64": "X64", "arm64": "ARM64"}[p.arch])
			values := map[string]string{"inputs.version || github.action_ref": c.version, "inputs.url": c.url, "inputs.args": c.args, "github.server_url": "https://example.com", "github.action_repository": "x/y"}
			path := os.Getenv("PATH")
			var printed strings.Builder
			failed := false
			for _, step := range file.Runs.Steps {
				if step.Shell != "bash" || step.If != "" && step.If != "inputs.args != ''" {
					t.Fatalf("this test does not know the step %+v", step)
				}
				if failed || step.If != "" && c.args == "" {
					continue
				}
				// in the way that https://docs.github.com describes for shell: bash
				cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
				cmd.Dir = work
				cmd.Env = []string{"PATH=" + path, "HOME=" + work, "RUNNER_OS=Linux", "RUNNER_ARCH=" + arch, "RUNNER_TEMP=" + filepath.Join(work, "temp"), "GITHUB_PATH=" + filepath.Join(work, "path"), "GITHUB_OUTPUT=" + filepath.Join(work, "output")}
				for key, text := range step.Env {
					text = regexp.MustCompile(`\$\{\{ (.*?) \}\}`).ReplaceAllStringFunc(text, func(expression string) string {
						value, known := values[strings.TrimSuffix(strings.TrimPrefix(expression, "${{ "), " }}")]
						if !known {
							t.Errorf("this test does not know %s", expression)
						}
						return value
					})
					cmd.Env = append(cmd.Env, key+"="+text)
				}
				text, err := cmd.CombinedOutput()
				printed.Write(text)
				failed = err != nil
				if added, err := os.ReadFile(filepath.Join(work, "path")); err == nil {
					path = strings.TrimSpace(string(added)) + ":" + os.Getenv("PATH")
				}
			}
			if failed != c.fails || !strings.Contains(printed.String(), c.want) {
				t.Errorf("failed: %t, and printed:\n%s", failed, printed.String())
			}
			if installed := path != os.Getenv("PATH"); installed != (!c.fails || strings.HasPrefix(c.name, "a step fails")) {
				t.Errorf("installed: %t", installed)
			}
			if _, err := os.Stat(filepath.Join(work, "made")); err == nil || strings.Contains(printed.String(), "\n::warning") {
				t.Errorf("an input was run (%v), and printed:\n%s", err, printed.String())
			}
		})
	}
}

// headers returns the headers of a compressed tar archive by name.
func headers(t *testing.T, path string) map[string]*tar.Header {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	list := map[string]*tar.Header{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		list[h.Name] = h
	}
}

// An error names the missing part, and nothing is written.
func TestRefusals(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if err := run([]string{"-out", t.TempDir()}); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Error(err)
	}
	if got := rubyText(`a"b#{c}\`); got != `"a\"b\#{c}\\"` {
		t.Error(got)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	empty := t.TempDir()
	if err := run([]string{"-programs", empty, "-out", t.TempDir()}); err == nil || !strings.Contains(err.Error(), "has no program") {
		t.Error(err)
	}
	if _, err := readDebs(empty); err == nil || !strings.Contains(err.Error(), ".ci/packages") {
		t.Error(err)
	}
}
