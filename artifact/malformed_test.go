package artifact

import (
	"archive/tar"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/artifact/tartest"
)

// malformed returns files that are not valid archives of a release.
func malformed(t testing.TB, mf string) []struct {
	what string
	data []byte
} {
	noise := []byte(strings.Repeat("\x00\xff\x81q", 300))
	long := tartest.Tgz(t, tartest.File(mf, "name: web\n"), tartest.File("filler", string(noise)))
	damaged := append([]byte{}, long...)
	damaged[len(damaged)-6] ^= 0xff // a byte of the checksum
	return []struct {
		what string
		data []byte
	}{
		{"nothing", nil},
		{"a page of a server", []byte("\r\n<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n")},
		{"a page of a server, packed", tartest.Gzip([]byte("<html><body>log in</body></html>"))},
		{"an error of an object store", []byte(`<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`)},
		{"a pointer of Git LFS", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")},
		{"a ZIP file", append([]byte("PK\x03\x04"), noise...)},
		{"an xz file", append([]byte("\xfd7zXZ\x00"), noise...)},
		{"noise", noise},
		{"half of it", long[:len(long)/2]},
		{"a bit is wrong", damaged},
		{"no files", tartest.Tgz(t)},
		{"other files", tartest.Tgz(t, tartest.File("x", "x"))},
		{"a folder of that name", tartest.Tgz(t, tartest.Dir(mf+"/"))},
		{"empty", tartest.Tgz(t, tartest.File(mf, ""))},
		{"no YAML", tartest.Tgz(t, tartest.File(mf, "name: web\n  version: [\n"))},
		{"a list", tartest.Tgz(t, tartest.File(mf, "- name: web\n"))},
		{"other kinds of values", tartest.Tgz(t, tartest.File(mf, "name: [web]\nversion: {a: b}\njobs: web\nstemcell_formats: x\n"))},
		{"no name", tartest.Tgz(t, tartest.File(mf, "version: 1\n"))},
		{"out of the folder", tartest.Tgz(t, tartest.File("../x", ""), tartest.File(mf, "name: web\n"))},
		{"an absolute path", tartest.Tgz(t, tartest.File("/etc/x", ""), tartest.File(mf, "name: web\n"))},
	}
}

// The golden file testdata/release.golden contains the error for each malformed
// release.
func TestMalformedReleases(t *testing.T) {
	t.Parallel()
	list := malformed(t, "release.MF")
	with := func(what, mf string, job ...tartest.Entry) {
		list = append(list, struct {
			what string
			data []byte
		}{what, tartest.Tgz(t, tartest.File("release.MF", mf), tartest.File("jobs/web.tgz", string(tartest.Tgz(t, job...))))})
	}
	mf, monit := "name: web\nversion: 1\njobs: [{name: web, version: 1}]\n", tartest.File("monit", "")
	with("a name that is a path", "name: web\njobs: [{name: ../x}]\n", monit)
	with("another digest", "name: web\njobs: [{name: web, sha1: da39a3ee5e6b4b0d3255bfef95601890afd80709}]\n", monit)
	with("no digest", "name: web\njobs: [{name: web, sha1: abc}]\n", monit)
	with("a job that is not there", "name: web\njobs: [{name: db}]\n", monit)
	with("no job.MF", mf, monit)
	with("no YAML in job.MF", mf, monit, tartest.File("job.MF", "name: ["))
	with("a list in job.MF", mf, monit, tartest.File("job.MF", "templates: [a, b]"))
	with("a template that leads out", mf, monit, tartest.File("job.MF", "templates: {a: ../../x}"))
	with("a template that is not there", mf, monit, tartest.File("job.MF", "templates: {a: b}"))
	with("a package that is not there", mf, monit, tartest.File("job.MF", "packages: [ruby]"))
	with("a link that leads out", mf, monit, tartest.File("job.MF", "{}"), tartest.Symlink("l", "/etc/passwd"))
	with("a hard link that leads out", mf, monit, tartest.File("job.MF", "{}"), tartest.Hardlink("l", "../x"))
	with("a device", mf, monit, tartest.File("job.MF", "{}"), tartest.Special("n", tar.TypeBlock))
	list = append(list, struct {
		what string
		data []byte
	}{"a job that is a page", tartest.Tgz(t, tartest.File("release.MF", mf), tartest.File("jobs/web.tgz", "<html>"))})

	var got strings.Builder
	for _, c := range list {
		s, dir := testStore(t), t.TempDir()
		_, err := s.Release(context.Background(), fetch(t, s, local("web", tartest.Write(t, c.data, dir, "web.tgz"), "")), nil)
		if err == nil {
			t.Errorf("%s is accepted", c.what)
		}
		fmt.Fprintf(&got, "%s\n  %s\n", c.what, strings.ReplaceAll(fmt.Sprint(err), dir+"/", ""))
	}
	// The digest of a web page is wrong, but the error says that it is a web page.
	s, dir := testStore(t), t.TempDir()
	page := tartest.Write(t, list[1].data, dir, "web.tgz")
	_, err := s.Release(context.Background(), fetch(t, s, local("web", page, strings.Repeat("0", 40))), nil)
	fmt.Fprintf(&got, "a page of a server, with a digest in the manifest\n  %s\n", strings.ReplaceAll(fmt.Sprint(err), dir+"/", ""))
	golden.Assert(t, got.String(), "release.golden")
}

// The golden file testdata/stemcell.golden contains the error for each malformed
// stemcell.
func TestMalformedStemcells(t *testing.T) {
	t.Parallel()
	list := malformed(t, "stemcell.MF")
	with := func(what, mf string, more ...tartest.Entry) {
		list = append(list, struct {
			what string
			data []byte
		}{what, tartest.Tgz(t, append([]tartest.Entry{tartest.File("stemcell.MF", mf)}, more...)...)})
	}
	mf, image := "name: s\nversion: 1\n", tartest.File("image", "image")
	with("cloud_properties with a number as a key", "name: s\nversion: 1\ncloud_properties: {a: {1: 2}}\n", image)
	with("api_version is text", "name: s\nversion: 1\napi_version: two\n", image)
	with("no image", mf)
	with("a folder for an image", mf, tartest.Dir("image/"))
	with("a link for an image", mf, tartest.Symlink("image", "/etc/passwd"))
	with("another image", mf+"sha1: da39a3ee5e6b4b0d3255bfef95601890afd80709\n", image)
	with("no digest", mf+"sha1: abc\n", image)
	with("a file through a link", mf, image, tartest.Symlink("l", ".."), tartest.File("l/x", "x"))
	with("a named pipe", mf, image, tartest.Special("n", tar.TypeFifo))

	var got strings.Builder
	for _, c := range list {
		s, dir := testStore(t), t.TempDir()
		st, err := s.Stemcell(context.Background(), fetch(t, s, Source{Kind: KindStemcell, Name: "s", URL: tartest.Write(t, c.data, dir, "s.tgz")}), nil)
		if err == nil {
			_, err = st.Extract(context.Background(), filepath.Join(dir, "to"), nil)
		}
		if err == nil {
			t.Errorf("%s is accepted", c.what)
		}
		fmt.Fprintf(&got, "%s\n  %s\n", c.what, strings.ReplaceAll(fmt.Sprint(err), dir+"/", ""))
	}
	golden.Assert(t, got.String(), "stemcell.golden")
}
