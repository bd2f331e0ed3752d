package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"bootstrap/artifact/tartest"
	"bootstrap/internal/digest"
)

func stemcellMFText(image []byte) string {
	return fmt.Sprintf(`---
name: bosh-lab-noble
version: 1.10
operating_system: ubuntu-noble
api_version: 3
bosh_protocol: '1'
sha1: %s
stemcell_formats: [lab, tar]
cloud_properties:
  root_device_name: /dev/sda1
  disk: 5120
  on: yes
  nested: {a: [1, {b: ~}]}
`, sha1Of(image))
}

func stemcellSource(path, digest string) Source {
	return Source{Kind: KindStemcell, URL: "file://" + path, Digest: digest}
}

func TestStemcell(t *testing.T) {
	t.Parallel()
	image := tartest.Body(3 << 20)
	mf := tartest.File("stemcell.MF", stemcellMFText(image))
	img := tartest.File("image", string(image))
	for name, c := range map[string]struct {
		entries []tartest.Entry
		most    int64 // how many bytes may be read without a digest; 0: all
	}{
		"first":  {[]tartest.Entry{tartest.File("./packages.txt", "p"), mf, img}, 1 << 20},
		"last":   {[]tartest.Entry{tartest.Dir("./"), img, mf}, 0},
		"dotted": {[]tartest.Entry{tartest.Dir("./"), tartest.File("./stemcell.MF", mf.Body), tartest.File("./image", img.Body)}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := tartest.Tar(t, c.entries...)
			path := tartest.Write(t, data, t.TempDir(), "s.tgz")
			age(t, path)
			s := testStore(t)
			read := func(digest string) (*Stemcell, int64) {
				t.Helper()
				var done int64
				st, err := s.Stemcell(context.Background(), fetch(t, s, stemcellSource(path, digest)), func(d, _ int64) { done = d })
				if err != nil {
					t.Fatal(err)
				}
				return st, done
			}
			st, n := read("")
			if c.most > 0 && n > c.most || c.most == 0 && n < int64(len(image)) {
				t.Errorf("read %d bytes without a digest", n)
			}
			if _, n = read(""); n != 0 {
				t.Errorf("read %d bytes the second time", n)
			}
			if st.Digest != "" {
				t.Errorf("digest is %q", st.Digest)
			}
			if _, n = read(sha1Of(data)); n != int64(len(data)) {
				t.Errorf("read %d bytes for the digest", n)
			}
			if st, n = read(sha1Of(data)); n != 0 {
				t.Errorf("read %d bytes for a known digest", n)
			}
			want := Stemcell{
				Name: "bosh-lab-noble", Version: "1.10", OS: "ubuntu-noble", APIVersion: 3, Formats: []string{"lab", "tar"}, Protocol: "1",
				CloudProperties: map[string]any{"root_device_name": "/dev/sda1", "disk": 5120, "on": true, "nested": map[string]any{"a": []any{1, map[string]any{"b": nil}}}},
				Digest:          sha256Of(data), ImageDigest: sha1Of(image), file: st.file, id: st.id,
			}
			if !reflect.DeepEqual(*st, want) {
				t.Errorf("stemcell is\n%+v, want\n%+v", *st, want)
			}
			to := t.TempDir()
			var done, total int64
			at, err := st.Extract(context.Background(), to, func(d, t int64) { done, total = d, t })
			if err != nil || at != filepath.Join(to, "image") || done != total || total != int64(len(data)) {
				t.Fatalf("Extract: %s, %v, %d of %d", at, err, done, total)
			}
			if got, _ := os.ReadFile(at); !bytes.Equal(got, image) {
				t.Error("the image is another one")
			}
			if _, err := os.Stat(filepath.Join(to, "stemcell.MF")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStemcellRefuses(t *testing.T) {
	t.Parallel()
	image := []byte("an image")
	good := stemcellMFText(image)
	for name, c := range map[string]struct {
		data  []byte
		words string
	}{
		"no stemcell.MF": {tartest.Tgz(t, tartest.File("image", "x")), "no stemcell.MF"},
		"no name":        {tartest.Tgz(t, tartest.File("stemcell.MF", "version: 1")), "no name"},
		"broken":         {tartest.Tgz(t, tartest.File("stemcell.MF", "{")), "stemcell.MF"},
		"number as key":  {tartest.Tgz(t, tartest.File("stemcell.MF", "name: a\nversion: 1\ncloud_properties: {a: {1: 2}}")), "cloud_properties"},
		"evil":           {tartest.Tgz(t, tartest.File("../x", ""), tartest.File("stemcell.MF", good)), "refused"},
		"html":           {[]byte("<html>"), "cannot extract"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testStore(t)
			path := tartest.Write(t, c.data, t.TempDir(), "s.tgz")
			for _, digest := range []string{"", sha256Of(c.data)} {
				_, err := s.Stemcell(context.Background(), fetch(t, s, stemcellSource(path, digest)), nil)
				tartest.MustFail(t, err, c.words)
			}
			_, err := s.Stemcell(context.Background(), fetch(t, s, stemcellSource(path, strings.Repeat("0", 40))), nil)
			var de *digest.Error
			if !errors.As(err, &de) {
				t.Errorf("wrong digest: %v", err)
			}
		})
	}
	for name, c := range map[string]struct {
		entries []tartest.Entry
		words   string
	}{
		"no image":      {[]tartest.Entry{tartest.File("stemcell.MF", good)}, `no file "image"`},
		"image a link":  {[]tartest.Entry{tartest.File("stemcell.MF", good), tartest.Symlink("image", "stemcell.MF")}, `no file "image"`},
		"other image":   {[]tartest.Entry{tartest.File("stemcell.MF", good), tartest.File("image", "another")}, "its digest is"},
		"evil later on": {[]tartest.Entry{tartest.File("stemcell.MF", good), tartest.File("image", string(image)), tartest.File("../x", "")}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testStore(t)
			st, err := s.Stemcell(context.Background(), fetch(t, s, stemcellSource(tartest.Write(t, tartest.Tgz(t, c.entries...), t.TempDir(), "s.tgz"), "")), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = st.Extract(context.Background(), t.TempDir(), nil)
			tartest.MustFail(t, err, c.words, "bosh-lab-noble/1.10")
		})
	}
}

func TestStemcellChangedBeforeExtraction(t *testing.T) {
	t.Parallel()
	s := testStore(t)
	path := tartest.Write(t, tartest.Tgz(t, tartest.File("stemcell.MF", "name: a\nversion: 1"), tartest.File("image", "x")), t.TempDir(), "s.tgz")
	st, err := s.Stemcell(context.Background(), fetch(t, s, stemcellSource(path, "")), nil)
	if err != nil {
		t.Fatal(err)
	}
	tartest.Write(t, tartest.Tgz(t, tartest.File("image", "some other")), path)
	_, err = st.Extract(context.Background(), t.TempDir(), nil)
	tartest.MustFail(t, err, "changed since it was verified")
}

// A light stemcell has an empty image; its sha1 is often that of the full stemcell.
func TestLightStemcell(t *testing.T) {
	t.Parallel()
	text := "name: light\nversion: 2\nsha1: " + strings.Repeat("0", 40) + "\n"
	folder := t.TempDir()
	tartest.Write(t, []byte(text), folder, "stemcell.MF")
	tartest.Write(t, nil, folder, "image")
	s := testStore(t)
	s.embedded = map[string]fs.FS{"light": fstest.MapFS{"stemcell.MF": {Data: []byte(text)}, "image": {}, "doc/x": {Data: []byte("x")}}}
	archive := tartest.Write(t, tartest.Tgz(t, tartest.File("stemcell.MF", text), tartest.File("image", "")), t.TempDir(), "s.tgz")
	for _, url := range []string{"embedded:light", "file://" + folder, archive} {
		st, err := s.Stemcell(context.Background(), fetch(t, s, Source{Kind: KindStemcell, URL: url}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if st.Name != "light" || st.Version != "2" || st.APIVersion != 1 || st.CloudProperties == nil {
			t.Errorf("%s is %+v", url, st)
		}
		for range 2 {
			image, err := st.Extract(context.Background(), filepath.Join(string(s.dir), "x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(image); err != nil || info.Size() != 0 {
				t.Errorf("image: %v", err)
			}
		}
	}
}
