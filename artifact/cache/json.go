package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/artifact/archive"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// ReadJSON reads a file that WriteJSON wrote; a wrong checksum is an error. Numbers are
// decoded as json.Number if v does not give their type.
func ReadJSON(path string, v any) error {
	data, err := regular.Read(path)
	if err != nil {
		return err
	}
	sum, text, _ := bytes.Cut(data, []byte("\n"))
	if string(sum) != checksum(text) {
		return fmt.Errorf("%s is damaged", path)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// WriteJSON replaces path atomically (0600). It tries up to ten times if other runs
// empty the cache at the same time.
func WriteJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = writeChecked(path, data)
	for more := 9; more > 0 && errors.Is(err, fs.ErrNotExist); more-- {
		err = writeChecked(path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, archive.Cause(err))
	}
	return nil
}

// writeChecked replaces a file of the cache. It removes a folder at its path, because
// everything in the cache can be made again.
func writeChecked(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return atomicfile.Replace(path, fmt.Appendf(nil, "%s\n%s", checksum(data), data))
}
