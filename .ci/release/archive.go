package main

import (
	"archive/tar"
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// archive makes the archive of a platform: a folder with the program, man pages,
// completion scripts and documents.
func (r *release) archive(p platform) error {
	dir := fmt.Sprintf("bootstrap-%s-%s/", r.version.Go, p)
	files, err := r.documents(dir, p)
	if err != nil {
		return err
	}
	files = append(files, file{dir + p.program(), r.path(p), 0o755})
	pages, err := r.manPages()
	if err != nil {
		return err
	}
	names := []string{"bootstrap.bash", "_bootstrap", "bootstrap.fish", "bootstrap.ps1"}
	if p.os == "windows" {
		pages, names = nil, names[3:]
	}
	for _, page := range pages {
		files = append(files, file{dir + "man/man1/" + filepath.Base(page), page, 0o644})
	}
	for _, name := range names {
		files = append(files, file{dir + "completions/" + name, r.completion(name), 0o644})
	}
	slices.SortFunc(files, byName)
	if p.os == "windows" {
		return create(r.name(p.String()+".zip"), func(to io.Writer) error { return writeZip(to, files, r.date) })
	}
	return create(r.name(p.String()+".tar.gz"), func(to io.Writer) error {
		z := gzip.NewWriter(to)
		return errors.Join(writeTar(z, files, r.date), z.Close())
	})
}

// create writes a new file.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeTar writes files, with the folders above them, that belong to root.
func writeTar(to io.Writer, files []file, date time.Time) error {
	w := tar.NewWriter(to)
	made := map[string]bool{".": true}
	var folders func(dir string) error
	folders = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := folders(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: date, Uname: "root", Gname: "root"})
	}
	for _, f := range files {
		if err := folders(path.Dir(f.name)); err != nil {
			return err
		}
		err := open(f, func(from io.Reader, size int64) error {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: size, Mode: int64(f.mode), ModTime: date, Uname: "root", Gname: "root"}
			if err := w.WriteHeader(h); err != nil {
				return err
			}
			_, err := io.Copy(w, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return w.Close()
}

func writeZip(to io.Writer, files []file, date time.Time) error {
	w := zip.NewWriter(to)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.DefaultCompression)
	})
	for _, f := range files {
		err := open(f, func(from io.Reader, _ int64) error {
			h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
			h.SetMode(f.mode)
			part, err := w.CreateHeader(h)
			if err != nil {
				return err
			}
			_, err = io.Copy(part, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return w.Close()
}

func open(f file, use func(from io.Reader, size int64) error) error {
	in, err := os.Open(f.source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return use(in, info.Size())
}

// checksums writes SHA256SUMS of all other files in a folder, in the form of sha256sum.
func checksums(dir string) error {
	entries, err := os.ReadDir(dir) // ReadDir sorts by name.
	if err != nil {
		return err
	}
	return create(filepath.Join(dir, "SHA256SUMS"), func(to io.Writer) error {
		for _, e := range entries {
			if e.Name() == "SHA256SUMS" || e.IsDir() {
				continue
			}
			sum, err := digest(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(to, "%s  %s\n", sum, e.Name()); err != nil {
				return err
			}
		}
		return nil
	})
}

// digest returns the SHA-256 of a file in hex.
func digest(path string) (string, error) {
	h := sha256.New()
	err := open(file{source: path}, func(from io.Reader, _ int64) error {
		_, err := io.Copy(h, from)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// compressed writes a copy of a file that is compressed with gzip, and returns its path.
func (r *release) compressed(source string) (string, error) {
	to := filepath.Join(r.work, filepath.Base(source)+".gz")
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return to, err
	}
	return to, create(to, func(out io.Writer) error {
		z := gzip.NewWriter(out)
		err := open(file{source: source}, func(from io.Reader, _ int64) error {
			_, err := io.Copy(z, from)
			return err
		})
		return errors.Join(err, z.Close())
	})
}
