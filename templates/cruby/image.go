package cruby

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// image has nothing but its note where it was not built.
//
//go:embed image
var image embed.FS

// About says what an image was made from.
type About struct {
	Package string // the npm package, name@version
	Ruby    string // its version
	Module  string // SHA-256 of the module, in hex
	Driver  string // SHA-256 of the Ruby file that it has loaded, in hex
}

// ErrNoImage is a program that was built without an image.
var ErrNoImage = errors.New("this program was built without its Ruby")

// Embedded tells what image is in this program. It reads nothing else of it.
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

// Load unpacks the image and opens the library that belongs to it.
func Load() (wasm []byte, library fs.FS, err error) {
	wasm, err = unpack()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot unpack the embedded Ruby: %w", err)
	}
	data, err := image.ReadFile("image/library.zip")
	if err == nil {
		library, err = OpenLibrary(data)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the library of the embedded Ruby: %w", err)
	}
	return wasm, library, nil
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

// Notice has the licences of what the image is made of.
func Notice() (string, error) {
	text, err := image.ReadFile("image/NOTICE")
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoImage
	}
	return string(text), err
}
