package cruby

import (
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// image contains only its README if it was not built.
//
//go:embed image
var image embed.FS

// About describes the sources of an image.
type About struct {
	Package string // the npm package, name@version
	Ruby    string // version of Ruby
	Module  string // SHA-256 of the module and its memory, in hex
	Driver  string // SHA-256 of the Ruby file of the driver, in hex
	Profile string // SHA-256 of the list of functions that templates reach, in hex
}

// ErrNoImage says that the program was built without an image.
var ErrNoImage = errors.New("this program was built without its Ruby: build it on a machine with npm (make build), or name a Ruby with --ruby PATH")

var errOtherImage = errors.New("the embedded Ruby was built by another version of bootstrap: build it again, with the program (make build)")

// Embedded returns what the image in this program was built from, without reading
// the image.
func Embedded() (About, error) { return embedded(image) }

func embedded(files fs.FS) (About, error) {
	var about About
	text, err := fs.ReadFile(files, "image/about.json")
	if errors.Is(err, fs.ErrNotExist) {
		return about, ErrNoImage
	}
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	for _, name := range []string{codeName, memoryName, profileName, libraryName} {
		if _, missing := fs.Stat(files, "image/"+name); err == nil && missing != nil {
			err = errOtherImage
		}
	}
	return about, err
}

// Library opens the library that belongs to the image. It is unpacked when a template
// needs the first file of it, which few do.
func Library() fs.FS {
	return later(sync.OnceValues(func() (fs.FS, error) {
		data, err := unpack(libraryName)
		if err != nil {
			return nil, err
		}
		return OpenLibrary(data)
	}))
}

// later is a folder that is opened when one of its files is first opened.
type later func() (fs.FS, error)

func (l later) Open(name string) (fs.File, error) {
	folder, err := l()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return folder.Open(name)
}

// The files of the image with a Ruby that is ready to render.
const (
	codeName    = "code.wasm.zst"   // a module without data
	memoryName  = "memory.zst"      // the file of PackMemory with which Ruby starts
	profileName = "profile"         // a Profile
	libraryName = "library.zip.zst" // see Library
)

// unpack decompresses a file of the image.
func unpack(name string) ([]byte, error) {
	small, err := image.ReadFile("image/" + name)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(small, nil)
}

// unpackTo decompresses a file of the image to a new file.
func unpackTo(name, path string) error {
	small, err := image.Open("image/" + name)
	if err != nil {
		return err
	}
	defer small.Close()
	d, err := zstd.NewReader(small)
	if err != nil {
		return err
	}
	defer d.Close()
	return writeNew(path, d)
}

// writeNew writes a new file that only this user can read.
func writeNew(path string, from io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// Notice returns the licences of the parts of the image.
func Notice() (string, error) {
	var text string
	for _, name := range []string{"LICENSE", "NOTICE"} {
		part, err := image.ReadFile("image/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoImage
		}
		if err != nil {
			return "", err
		}
		text += string(part) + "\n"
	}
	return text, nil
}
