// Package metadata reads the small texts of releases and stemcells.
package metadata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"bootstrap/artifact/archive"
)

// maxMetadata limits release.MF, stemcell.MF and job.MF.
const maxMetadata = 32 << 20

// Read reads a small text to its end.
func Read(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err == nil && len(text) > maxMetadata {
		return nil, fmt.Errorf("it is larger than %d MiB", maxMetadata>>20)
	}
	return text, err
}

// ReadFile reads a small file of a folder.
func ReadFile(fsys fs.FS, name string) ([]byte, error) {
	// Checked before it is opened, because opening a named pipe would block.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, archive.Cause(err))
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read %s: it is not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, archive.Cause(err))
	}
	defer f.Close()
	text, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, archive.Cause(err))
	}
	return text, nil
}

// rubyBinary finds texts with the tag !binary, which old tools wrote for texts that Ruby
// took for bytes.
var rubyBinary = regexp.MustCompile(`(?m)(^|[\s:])!binary(\s)`)

// DecodeRuby is Decode for texts of which Ruby wrote some parts as binary.
func DecodeRuby(text []byte, v any) error {
	return Decode(rubyBinary.ReplaceAll(text, []byte("$1!!binary$2")), v)
}

// maxMistyped is how many values of a wrong type an error names.
const maxMistyped = 10

// Decode is yaml.Unmarshal with messages without Go's types. Releases and
// stemcells are YAML 1.1 (yes, off, 0755), as their authors' tools read it.
func Decode(text []byte, v any) error {
	err := yaml.Unmarshal(text, v)
	var mistyped *yaml.TypeError
	switch {
	case errors.As(err, &mistyped):
		var list []string
		for i, e := range mistyped.Errors {
			if i == maxMistyped {
				list = append(list, fmt.Sprintf("and %d more", len(mistyped.Errors)-i))
				break
			}
			list = append(list, wrongKind(e))
		}
		return errors.New(strings.Join(list, "; "))
	case err != nil:
		return fmt.Errorf("not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return nil
}

var kindMismatch = regexp.MustCompile("^(line \\d+): cannot unmarshal !!(\\w+)(?: `(?:.*)`)? into (.*)$")

// wrongKind rewords a message about Go's types.
func wrongKind(message string) string {
	m := kindMismatch.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	got := map[string]string{"seq": "a list", "map": "a map", "str": "text", "int": "a number", "float": "a number", "bool": "true or false"}[m[2]]
	want := "a map"
	switch {
	case strings.HasPrefix(m[3], "[]"):
		want = "a list"
	case m[3] == "string":
		want = "text"
	case m[3] == "int":
		want = "a whole number"
	case m[3] == "bool":
		want = "true or false"
	}
	if got == "" || got == want {
		return message
	}
	return fmt.Sprintf("%s: must be %s, not %s", m[1], want, got)
}

// Plain converts a decoded YAML value to one that JSON can represent: maps have
// string keys, numbers are finite.
func Plain(v any) (any, error) {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, value := range v {
			name, ok := k.(string)
			if !ok {
				return nil, fmt.Errorf("a map has the key %v, which is not text: quote it", k)
			}
			var err error
			if m[name], err = Plain(value); err != nil {
				return nil, err
			}
		}
		return m, nil
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, value := range v {
			var err error
			if m[name], err = Plain(value); err != nil {
				return nil, err
			}
		}
		return m, nil
	case []any:
		list := make([]any, len(v))
		for i, value := range v {
			var err error
			if list[i], err = Plain(value); err != nil {
				return nil, err
			}
		}
		return list, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a finite number", v)
		}
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	}
	return v, nil
}
