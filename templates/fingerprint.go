package templates

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Fingerprint returns the SHA-1 in hex of the contents of all files below dir, in
// lexical order, without names and modes. It is the configuration_hash of an apply
// spec, as bosh-init computes it.
func Fingerprint(dir string) (string, error) {
	sum := sha1.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(sum, f)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("cannot compute the fingerprint of %s: %w", dir, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
