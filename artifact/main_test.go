package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("ARTIFACT_CHILD") != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// entry is one of a tar made for a test.
type entry struct {
	name string
	body string
	kind byte // 0: a file
	link string
	mode int64
}

func dir(name string) entry             { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func symlink(name, to string) entry     { return entry{name: name, kind: tar.TypeSymlink, link: to} }
func hardlink(name, to string) entry    { return entry{name: name, kind: tar.TypeLink, link: to} }
func file(name, body string) entry      { return entry{name: name, body: body, mode: 0o644} }
func special(name string, k byte) entry { return entry{name: name, kind: k, mode: 0o644} }

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.body)), ModTime: time.Unix(1_000_000_000, 0)}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, e.body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func tgz(t testing.TB, entries ...entry) []byte {
	t.Helper()
	return gzipped(tarOf(t, entries...))
}

func gzipped(data []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	w.Write(data)
	w.Close()
	return buf.Bytes()
}

func write(t testing.TB, data []byte, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// age makes a file old enough for its identity to be trusted.
func age(t testing.TB, path string) {
	t.Helper()
	for !identifyPath(path).settled(time.Now()) {
		time.Sleep(time.Millisecond)
	}
}

func sha1Of(data []byte) string   { return fmt.Sprintf("%x", sha1.Sum(data)) }
func sha256Of(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func testStore(t testing.TB) *Store {
	t.Helper()
	s := Open(Config{Dir: filepath.Join(t.TempDir(), "bosh"), Getenv: func(string) string { return "" }})
	s.retry.pause, s.retry.longest = time.Millisecond, 5*time.Millisecond
	return s
}

func fetch(t testing.TB, s *Store, src Source) File {
	t.Helper()
	f, err := s.Fetch(context.Background(), src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mustFail checks that an error has all the words.
func mustFail(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q does not say %q", err, w)
		}
	}
}

const jobSpec = `---
name: web
templates:
  ctl.erb: bin/ctl
  web.yml.erb: config/web.yml
packages: [web]
properties:
  web.on: {description: a switch, default: yes}
  web.mode: {default: 0755}
  web.port: {default: 8080}
  web.ratio: {default: 1.0}
  web.map: {default: {a: {b: [1, two, off, ~]}}}
  web.none: {description: without a default}
  web.bare:
`

func jobArchive(t testing.TB) []byte {
	return tgz(t, dir("./"), file("./job.MF", jobSpec), file("./monit", "check process web\n"),
		file("./templates/ctl.erb", "#!/bin/sh\n"), file("./templates/web.yml.erb", "port: <%= p('web.port') %>\n"))
}

func packageArchive(t testing.TB, body string) []byte {
	return tgz(t, file("./packaging", "cp -a . $BOSH_INSTALL_TARGET\n"), file("./web/data", body))
}

// releaseMFText lists one job and two packages, one of them compiled.
func releaseMFText(job, source, compiled []byte) string {
	return fmt.Sprintf(`---
name: web
version: 1.10
commit_hash: 12345e7
uncommitted_changes: false
jobs:
- {name: web, version: jobfp, fingerprint: jobfp, sha1: %s}
packages:
- name: web
  version: webfp
  fingerprint: webfp
  sha1: %s
  dependencies: [base]
compiled_packages:
- name: base
  version: basefp
  fingerprint: basefp
  sha1: %s
  stemcell: ubuntu-noble/1.2
  dependencies: []
`, sha1Of(job), sha256Of(source), sha1Of(compiled))
}

func releaseEntries(t testing.TB) []entry {
	job, source, compiled := jobArchive(t), packageArchive(t, "source"), packageArchive(t, "compiled")
	return []entry{
		dir("./"), dir("./jobs/"), file("./jobs/web.tgz", string(job)),
		file("./packages/web.tgz", string(source)),
		file("./release.MF", releaseMFText(job, source, compiled)),
		file("./compiled_packages/base.tgz", string(compiled)),
		file("./LICENSE", "free"),
	}
}

func releaseArchive(t testing.TB) []byte { return tgz(t, releaseEntries(t)...) }

func mustGunzip(t testing.TB, data []byte) io.Reader {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// largeRelease does not shrink when it is packed.
func largeRelease(t testing.TB, size int) []byte {
	t.Helper()
	noise := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	job, source, compiled := jobArchive(t), packageArchive(t, string(noise)), packageArchive(t, "c")
	return tarOf(t, file("jobs/web.tgz", string(job)), file("packages/web.tgz", string(source)),
		file("compiled_packages/base.tgz", string(compiled)), file("release.MF", releaseMFText(job, source, compiled)))
}
