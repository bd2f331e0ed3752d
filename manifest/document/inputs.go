package document

import (
	"context"
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

	"bootstrap/manifest/store"
)

// InputsDigest returns an HMAC-SHA256, as hex and keyed with the salt, of all inputs of
// an evaluation: the contents of all files, including those that the manifest names as
// its cloud config, but not their paths; the given values; and the values of sources. A
// pipe is not read, because it can be read only once: it makes the digest different
// each time.
func InputsDigest(ctx context.Context, path string, opts Options, salt string) (string, error) {
	if path == "-" {
		return "", errors.New("cannot compare a manifest from standard input with a later one: write it to a file")
	}
	d := inputsDigest{Hash: hmac.New(sha256.New, []byte(salt))}
	if opts.Recorded != nil {
		err := d.recorded(opts.Recorded)
		return hex.EncodeToString(d.Sum(nil)), err
	}
	errs := []error{d.file(ctx, "manifest", "the manifest", path)}
	for _, file := range opts.Ops {
		errs = append(errs, d.file(ctx, "ops", "the operations file", file))
	}
	clouds := opts.CloudConfigs
	if len(clouds) == 0 && errors.Join(errs...) == nil {
		var err error
		clouds, err = namedCloudConfig(ctx, path, opts)
		errs = append(errs, err)
	}
	for _, file := range clouds {
		errs = append(errs, d.file(ctx, "cloud config", "the cloud config", file))
	}
	if opts.CloudProvider != "" {
		errs = append(errs, d.file(ctx, "cloud provider", "the cloud provider", opts.CloudProvider))
	}
	for _, file := range opts.RuntimeConfigs {
		errs = append(errs, d.file(ctx, "runtime config", "the runtime config", file))
	}
	for _, source := range slices.Concat(opts.Sources.Releases, opts.Sources.Stemcells) {
		d.part("source", []byte(source))
	}
	if path := opts.Sources.LockFile; path != "" {
		if _, err := os.Stat(path); err == nil {
			errs = append(errs, d.file(ctx, "lock", "the lock file", path))
		}
	}
	for _, prefix := range opts.VarsEnv {
		d.part("prefix", []byte(prefix))
		var settings []string
		for _, setting := range opts.Environ {
			if strings.HasPrefix(setting, prefix+"_") {
				settings = append(settings, setting)
			}
		}
		// The order matters only if a name is set twice.
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
		if file == "-" {
			d.part("vars", opts.Piped)
			continue
		}
		errs = append(errs, d.file(ctx, "vars", "the variables file", file))
	}
	for _, arg := range opts.VarFiles {
		name, file, _ := strings.Cut(arg, "=")
		d.part("name", []byte(name))
		errs = append(errs, d.file(ctx, "file", "the file of --var-file "+name+":", file))
	}
	errs = append(errs, d.flagsFile(ctx, opts.FlagsFile))
	for _, arg := range opts.Vars {
		d.part("var", []byte(arg))
	}
	if opts.VarsStore != "" {
		err := d.store(opts.VarsStore)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			d.part("no store", nil)
		}
		errs = append(errs, err)
	}
	if errors.Join(errs...) == nil {
		errs = append(errs, d.sourced(ctx, path, opts))
	}
	return hex.EncodeToString(d.Sum(nil)), errors.Join(errs...)
}

// inputsDigest hashes parts, each with its kind and length, so that different
// parts cannot add up to the same bytes.
type inputsDigest struct{ hash.Hash }

func (d inputsDigest) part(kind string, data []byte) {
	fmt.Fprintf(d, "%s %d\n", kind, len(data))
	d.Write(data)
}

// file adds the content of a file; what describes the file in errors.
func (d inputsDigest) file(ctx context.Context, kind, what, path string) error {
	return d.read(kind, path, func() ([]byte, error) { return readFile(ctx, what, path) })
}

// store adds the content of the vars store's file.
func (d inputsDigest) store(path string) error {
	return d.read("store", path, func() ([]byte, error) {
		expanded, err := ExpandHome(path)
		if err != nil {
			return nil, err
		}
		return store.Content(expanded, path)
	})
}

func (d inputsDigest) read(kind, path string, read func() ([]byte, error)) error {
	if isPipe(path) {
		d.part("unknown "+kind, []byte(rand.Text()))
		return nil
	}
	data, err := read()
	if err != nil {
		return err
	}
	d.part(kind, data)
	return nil
}
