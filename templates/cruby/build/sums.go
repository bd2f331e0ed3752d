package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile contains a line for each part of the image, and one for the inputs of the
// profile. It is committed, so that a checkout in which the image was built shows
// whether the same input gave the same bytes elsewhere.
const sumsFile = "build/image.sum"

const profiled = "profile of" // the name of the line

// sums returns the lines of an image. Its parts are not compressed: programs may
// compress differently.
func sums(code, memory, library []byte) []string {
	return []string{"code " + sum(code), "memory " + sum(memory), "library " + sum(library)}
}

// profiledFrom returns the line about a profile of the image.
func (b *builder) profiledFrom(image []string) (string, error) {
	all := strings.Join(image, "\n")
	for _, templates := range []struct {
		folder  fs.FS
		pattern string
	}{{corpus, corpusFiles}, {corpus, contextFile}, {corpus, directorFile}, {os.DirFS(b.golden()), goldenFiles}} {
		found, err := fs.Glob(templates.folder, templates.pattern)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", errors.New("there is no " + templates.pattern)
		}
		for _, name := range found {
			text, err := fs.ReadFile(templates.folder, name)
			if err != nil {
				return "", err
			}
			all += "\n" + name + " " + sum(text)
		}
	}
	return profiled + " " + sum([]byte(all)), nil
}

// golden is the folder of the tests' templates, which are rendered for the profile, too.
func (b *builder) golden() string {
	return filepath.Join(filepath.Dir(b.driver), "testdata", "golden")
}

// recorded returns the line with that name in the file of sums; empty: there is no such
// line.
func (b *builder) recorded(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.out, sumsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name+" ") {
			return strings.TrimSpace(line), nil
		}
	}
	return "", err
}

// record adds the file of sums to the written files. Without a new profile, the line
// about its inputs stays.
func (b *builder) record(m *made, library []byte) error {
	lines := sums(m.code, m.memory, library)
	from, err := b.recorded(profiled)
	if b.profile {
		from, err = b.profiledFrom(lines)
	}
	b.files[sumsFile] = []byte(strings.Join(append(lines, from), "\n") + "\n")
	return err
}

// runCheck compares the image in the folder with the committed sums, compares the
// profile's inputs with those recorded, and makes the machine code again.
func (b *builder) runCheck(ctx context.Context) error {
	parts := map[string][]byte{}
	for _, name := range []string{"image/code.wasm.zst", "image/memory.zst", "image/library.zip.zst"} {
		data, err := b.read(name)
		if err != nil {
			return err
		}
		parts[name] = data
	}
	lines := sums(parts["image/code.wasm.zst"], parts["image/memory.zst"], parts["image/library.zip.zst"])
	from, err := b.profiledFrom(lines)
	if err != nil {
		return err
	}
	for _, line := range append(lines, from) {
		name := line[:strings.LastIndexByte(line, ' ')]
		was, err := b.recorded(name)
		switch {
		case err != nil:
			return err
		case was == line:
		case name == profiled:
			return errors.New("the profile was made from another image or from other templates: make profile")
		default:
			return fmt.Errorf("the image has %q, and %s has %q: if its input has changed, commit what make image wrote there", line, sumsFile, was)
		}
	}
	return b.runNative(ctx)
}

// compare compares the results with the existing files.
func (b *builder) compare() error {
	for name, data := range b.files {
		there, err := b.read(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(there, data) {
			return fmt.Errorf("%s differs when it is built again: it is %s, and was %s", name, sum(data), sum(there))
		}
	}
	return nil
}
