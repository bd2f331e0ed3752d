package document

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// InputsDigest returns an HMAC-SHA256, as hex, keyed with the salt, of all that
// Load reads for these options: the contents of the manifest, of operations,
// variables and store, and the values that are given. Where files lie makes no
// difference. What can be read only once, such as a pipe, is not read, and
// never the same.
func InputsDigest(path string, opts Options, salt string) (string, error) {
	if path == "-" {
		return "", errors.New("cannot tell whether a manifest on the standard input will be the same again: write it to a file")
	}
	d := inputsDigest{Hash: hmac.New(sha256.New, []byte(salt))}
	errs := []error{d.file("manifest", "the manifest", path)}
	for _, file := range opts.Ops {
		errs = append(errs, d.file("ops", "the operations file", file))
	}
	for _, prefix := range opts.VarsEnv {
		d.part("prefix", []byte(prefix))
		var settings []string
		for _, setting := range opts.Environ {
			if strings.HasPrefix(setting, prefix+"_") {
				settings = append(settings, setting)
			}
		}
		// Their order means something only where a name is set twice.
		slices.SortStableFunc(settings, func(a, b string) int {
			one, _, _ := strings.Cut(a, "=")
			other, _, _ := strings.Cut(b, "=")
			return strings.Compare(one, other)
		})
		for _, setting := range settings {
			d.part("environment", []byte(setting))
		}
	}
	for _, file := range opts.VarsFiles {
		errs = append(errs, d.file("vars", "the variables file", file))
	}
	for _, arg := range opts.VarFiles {
		name, file, _ := strings.Cut(arg, "=")
		d.part("name", []byte(name))
		errs = append(errs, d.file("file", "the file of --var-file "+name+":", file))
	}
	for _, arg := range opts.Vars {
		d.part("var", []byte(arg))
	}
	if opts.VarsStore != "" {
		err := d.file("store", "the vars store", opts.VarsStore)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			d.part("no store", nil)
		}
		errs = append(errs, err)
	}
	return hex.EncodeToString(d.Sum(nil)), errors.Join(errs...)
}

// inputsDigest takes parts, each with its kind and its length, so that none
// runs into the next.
type inputsDigest struct{ hash.Hash }

func (d inputsDigest) part(kind string, data []byte) {
	fmt.Fprintf(d, "%s %d\n", kind, len(data))
	d.Write(data)
}

// file takes the content of a file; what says what it is.
func (d inputsDigest) file(kind, what, path string) error {
	if expanded, err := ExpandHome(path); err == nil {
		if info, err := os.Stat(expanded); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			d.part("unknown "+kind, []byte(rand.Text()))
			return nil
		}
	}
	data, err := readFile(what, path)
	if err != nil {
		return err
	}
	d.part(kind, data)
	return nil
}
