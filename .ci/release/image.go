package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// image makes the container image of all processors, as a tar archive of an OCI layout,
// and the list of its components. The first layer has Debian's packages, the second the
// program. manifest.json beside the layout is for versions of docker load that do not
// know OCI layouts.
func (r *release) image(platforms []platform) error {
	dir := filepath.Join(r.work, "image")
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var components []cdx.Component
	var loads []dockerLoad
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		debs, err := readDebs(filepath.Join(r.debs, p.arch))
		if err != nil {
			return err
		}
		img, err := r.imageOf(p, debs)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		load, err := loadable(img, "bootstrap:"+r.tag()+"-"+p.arch)
		if err != nil {
			return err
		}
		loads = append(loads, load)
		for _, d := range debs {
			components = append(components, d.component())
		}
		sum, err := digest(r.path(p))
		if err != nil {
			return err
		}
		program := component(cdx.ComponentTypeFile, "/usr/bin/bootstrap", r.version.Go, "pkg:generic/bootstrap@"+r.version.Go+"?arch="+p.arch)
		program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		components = append(components, program)
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	name := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.tag(),
		"io.containerd.image.name":          "docker.io/library/bootstrap:" + r.tag(),
	})
	if err := to.AppendIndex(index, name); err != nil {
		return err
	}
	data, err := json.Marshal(loads)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), data, 0o644); err != nil {
		return err
	}
	files, err := filesBelow(dir)
	if err != nil {
		return err
	}
	if err := create(r.name("image.tar"), func(to io.Writer) error { return writeTar(to, files, r.date) }); err != nil {
		return err
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	same := func(a, b cdx.Component) bool { return a.BOMRef == b.BOMRef } // packages of all processors
	return writeBOM(r.name("image.cdx.json"), r.bom("bootstrap", cdx.ComponentTypeContainer), slices.CompactFunc(components, same))
}

// tag returns the version as a tag of an image, which may not contain a plus sign.
func (r *release) tag() string { return strings.ReplaceAll(r.version.Go, "+", "_") }

// imageOf makes the image of one processor.
func (r *release) imageOf(p platform, debs []debianPackage) (v1.Image, error) {
	base, err := baseTree(debs)
	if err != nil {
		return nil, err
	}
	bin, err := os.ReadFile(r.path(p))
	if err != nil {
		return nil, err
	}
	notice, err := os.ReadFile(r.noticePath(p))
	if err != nil {
		return nil, err
	}
	program := tree{}
	program.file("usr/bin/bootstrap", 0o755, bin)
	program.file("usr/share/doc/bootstrap/NOTICE", 0o644, notice)
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for name, t := range map[string]tree{"1-base": base, "2-program": program} {
		if err := t.compress(filepath.Join(r.work, name+"-"+p.arch+".tar.gz"), r.date); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"1-base", "2-program"} {
		layer, err := tarball.LayerFromFile(filepath.Join(r.work, name+"-"+p.arch+".tar.gz"), tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make dist", Comment: name[2:]}}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.date}
	var packages []string
	for _, d := range debs {
		packages = append(packages, d.Name+"="+d.Version+"@sha256:"+d.SHA256)
	}
	config.Config = v1.Config{
		User: "1000:1000", WorkingDir: "/work", Entrypoint: []string{"/usr/bin/bootstrap"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/bootstrap", "LANG=C.UTF-8", "BOOTSTRAP_SAFE_FOLDERS=*"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "bootstrap",
			"org.opencontainers.image.description": summary,
			"org.opencontainers.image.version":     r.version.Go,
			"org.opencontainers.image.revision":    r.commit,
			"org.opencontainers.image.created":     r.date.Format(time.RFC3339),
			"bootstrap.debian-packages":            strings.Join(packages, " "),
		},
	}
	return mutate.ConfigFile(img, config)
}

// tree is the content of a layer by name.
type tree map[string]entry

func (t tree) file(name string, mode int64, data []byte) {
	t[name] = entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}, data: data}
}

func (t tree) folder(name string, mode int64, owner int) {
	t[name] = entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner}}
}

func (t tree) link(name, to string) {
	if _, exists := t[name]; !exists {
		t[name] = entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}}
	}
}

// compress writes a tree as a compressed tar archive.
func (t tree) compress(to string, date time.Time) error {
	return create(to, func(out io.Writer) error {
		z := gzip.NewWriter(out)
		w := tar.NewWriter(z)
		names := slices.Sorted(maps.Keys(t))
		// The target of a hard link has to precede it.
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Compare(rank(t[a]), rank(t[b]))
		})
		for _, name := range names {
			e := t[name]
			h := tar.Header{Typeflag: e.Typeflag, Name: name, Linkname: e.Linkname, Size: int64(len(e.data)), Mode: e.Mode, Uid: e.Uid, Gid: e.Gid, ModTime: date}
			if h.Typeflag == tar.TypeDir {
				h.Name += "/"
			}
			if err := w.WriteHeader(&h); err != nil {
				return err
			}
			if _, err := w.Write(e.data); err != nil {
				return err
			}
		}
		return errors.Join(w.Close(), z.Close())
	})
}

func rank(e entry) int {
	if e.Typeflag == tar.TypeLink {
		return 1
	}
	return 0
}

// without reports whether the image leaves a file out: documentation, other languages and
// encodings, and files that only the installation of packages needs.
func without(name string) bool {
	for _, dir := range []string{"usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/", "usr/share/debconf/", "usr/share/pixmaps/"} {
		if strings.HasPrefix(name+"/", dir) {
			return true
		}
	}
	return strings.HasPrefix(name, "usr/share/doc/") && strings.Count(name, "/") > 2 && path.Base(name) != "copyright" ||
		strings.Contains(name, "/gconv/")
}

// baseTree returns the files that Debian's packages install, and the files that their
// scripts would write: names of alternatives, the bundle of certificates, users.
func baseTree(debs []debianPackage) (tree, error) {
	t := tree{}
	for _, d := range debs {
		for _, e := range d.entries {
			if !without(e.Name) {
				t[e.Name] = e
			}
		}
		// Scanners of images look for packages there, as in distroless images.
		t.file("var/lib/dpkg/status.d/"+d.Name, 0o644, append(bytes.TrimSpace(d.control), '\n'))
	}
	for name, to := range map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "usr/bin/awk": "mawk", "usr/bin/sh": "dash", "usr/bin/which": "which.debianutils"} {
		t.link(name, to)
	}
	var bundle bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if strings.HasPrefix(name, "usr/share/ca-certificates/") && strings.HasSuffix(name, ".crt") {
			bundle.Write(append(bytes.TrimSpace(t[name].data), '\n'))
		}
	}
	t.file("etc/ssl/certs/ca-certificates.crt", 0o644, bundle.Bytes())
	t.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/bash\nbootstrap:x:1000:1000::/home/bootstrap:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"))
	t.file("etc/group", 0o644, []byte("root:x:0:\nbootstrap:x:1000:\nnogroup:x:65534:\n"))
	t.folder("tmp", 0o1777, 0)
	t.folder("var/tmp", 0o1777, 0)
	t.folder("home/bootstrap", 0o755, 1000)
	t.folder("work", 0o755, 1000)
	return t, t.parents()
}

// parents adds missing folders.
func (t tree) parents() error {
	for name := range maps.Clone(t) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			above, exists := t[dir]
			if !exists {
				t.folder(dir, 0o755, 0)
				continue
			}
			if above.Typeflag != tar.TypeDir {
				return fmt.Errorf("%s is in %s, which is no folder", name, dir)
			}
		}
	}
	return nil
}

// component describes a package for the list of components.
func (d debianPackage) component() cdx.Component {
	c := component(cdx.ComponentTypeLibrary, d.Name, d.Version, fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", d.Name, url.QueryEscape(d.Version), d.Arch))
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: d.SHA256}}
	return c
}

// dockerLoad is an image in manifest.json of an archive that docker save writes.
type dockerLoad struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func loadable(img v1.Image, tag string) (l dockerLoad, err error) {
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	config, err := img.ConfigName()
	if err != nil {
		return l, err
	}
	layers, err := img.Layers()
	if err != nil {
		return l, err
	}
	l = dockerLoad{Config: blob(config), RepoTags: []string{tag}}
	for _, layer := range layers {
		h, err := layer.Digest()
		if err != nil {
			return l, err
		}
		l.Layers = append(l.Layers, blob(h))
	}
	return l, nil
}

// filesBelow returns the files below a folder, sorted.
func filesBelow(dir string) (list []file, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, file{filepath.ToSlash(strings.TrimPrefix(p, dir+string(filepath.Separator))), p, 0o644})
		}
		return err
	})
	slices.SortFunc(list, byName)
	return list, err
}
