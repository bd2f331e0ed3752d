package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blakesmith/ar"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// debianPackage is an unpacked package of Debian.
type debianPackage struct {
	Name, Version, Arch string
	SHA256              string // of the package's file, in hex
	control             []byte
	entries             []entry
}

// entry is a file, folder or link of a tree. The name in its header is relative to the
// root, without a slash at its end.
type entry struct {
	tar.Header
	data []byte
}

// readDebs reads all packages in a folder, sorted by their names.
func readDebs(dir string) (list []debianPackage, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no packages: .ci/packages downloads them", dir)
	}
	for _, p := range paths {
		d, err := readDeb(p)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", p, err)
		}
		if d.Name != "debconf" { // only scripts of packages use it
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b debianPackage) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// readDeb reads a package: an ar archive of two tar archives, see deb(5).
func readDeb(path string) (d debianPackage, err error) {
	if d.SHA256, err = digest(path); err != nil {
		return d, err
	}
	f, err := os.Open(path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	for r := ar.NewReader(bufio.NewReader(f)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return d, err
		}
		// GNU ar ends names with a slash.
		part, form, _ := strings.Cut(strings.TrimSuffix(h.Name, "/"), ".tar")
		if part != "control" && part != "data" {
			continue
		}
		entries, err := untar(r, form)
		if err != nil {
			return d, fmt.Errorf("%s: %w", h.Name, err)
		}
		if part == "data" {
			d.entries = entries
			continue
		}
		for _, e := range entries {
			if e.Name == "control" {
				d.control = e.data
			}
		}
	}
	for line := range strings.Lines(string(d.control)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Package":
			d.Name = value
		case "Version":
			d.Version = value
		case "Architecture":
			d.Arch = value
		}
	}
	if d.Name == "" || d.Version == "" || d.Arch == "" {
		return d, errors.New("its control file has no name, version or architecture")
	}
	return d, nil
}

// untar reads a tar archive. The end of its name says how it is compressed.
func untar(from io.Reader, form string) (list []entry, err error) {
	switch form {
	case "":
	case ".gz":
		from, err = gzip.NewReader(from)
	case ".xz":
		from, err = xz.NewReader(bufio.NewReader(from))
	case ".zst":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(from); err == nil {
			defer z.Close()
			from = z
		}
	default:
		err = errors.New("an unknown compression")
	}
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var data bytes.Buffer
		if _, err := io.Copy(&data, r); err != nil {
			return nil, err
		}
		e := entry{Header: *h, data: data.Bytes()}
		if e.Name = path.Clean(h.Name); e.Name == "." {
			continue
		}
		if !filepath.IsLocal(e.Name) {
			return nil, fmt.Errorf("%s is outside", h.Name)
		}
		if e.Typeflag == tar.TypeLink {
			e.Linkname = path.Clean(h.Linkname)
		}
		list = append(list, e)
	}
}
