package cruby

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// image has only its README if it was not built.
//
//go:embed image
var image embed.FS

// About describes what an image was built from.
type About struct {
	Package string // the npm package, name@version
	Ruby    string // its version
	Module  string // SHA-256 of the module, in hex
	Driver  string // SHA-256 of the Ruby file that it has loaded, in hex
}

// ErrNoImage says that the program was built without an image.
var ErrNoImage = errors.New("this program was built without its Ruby: build it on a machine with npm (make build), or name a Ruby with --ruby PATH")

// Embedded returns what the image in this program was built from, without reading
// the image.
func Embedded() (About, error) {
	var about About
	text, err := image.ReadFile("image/about.json")
	if errors.Is(err, fs.ErrNotExist) {
		return about, ErrNoImage
	}
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	return about, err
}

// Library opens the library that belongs to the image.
func Library() (fs.FS, error) {
	data, err := image.ReadFile("image/library.zip")
	if err != nil {
		return nil, err
	}
	return OpenLibrary(data)
}

func unpack() ([]byte, error) {
	small, err := image.ReadFile("image/ruby.wasm.zst")
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
