// Package metadata reads the small texts of releases and stemcells.
package metadata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
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

// Keys returns the keys of a map in their order. read is that of yaml.Unmarshaler.
func Keys(read func(any) error) ([]string, error) {
	var items yaml.MapSlice
	if err := read(&items); err != nil {
		return nil, err
	}
	var texts map[string]any
	if err := read(&texts); err != nil {
		return nil, err
	}
	var keys []string
	for _, item := range items {
		key, ok := item.Key.(string)
		if !ok {
			key = fmt.Sprint(item.Key)
		}
		if _, known := texts[key]; known && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	// Keys such as 1.0 and y are other texts in texts.
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Value is a decoded YAML value whose maps have the keys that Ruby's reader gives them as
// texts: y and n stay as they are, yes and on are true, and numbers are decimal.
type Value struct{ Decoded any }

// UnmarshalYAML decodes a value.
func (v *Value) UnmarshalYAML(read func(any) error) error {
	if err := read(&v.Decoded); err != nil {
		return err
	}
	switch decoded := v.Decoded.(type) {
	case []any:
		items := make([]Value, len(decoded))
		if err := read(&items); err != nil {
			return err
		}
		list := make([]any, len(items))
		for i := range items {
			list[i] = items[i].Decoded
		}
		v.Decoded = list
	case map[any]any:
		var items map[string]Value
		if err := read(&items); err != nil {
			return err
		}
		m := make(map[string]any, len(items))
		for key, item := range items {
			if _, isText := decoded[key]; !isText {
				key = rubyKey(key)
			}
			m[key] = item.Decoded
		}
		v.Decoded = m
	}
	return nil
}

// rubyKey returns the text of a plain key that is no text in YAML 1.1.
func rubyKey(key string) string {
	switch strings.ToLower(key) {
	case "yes", "on", "true":
		return "true"
	case "no", "off", "false":
		return "false"
	case "~", "null":
		return ""
	}
	var decoded any
	if yaml.Unmarshal([]byte(key), &decoded) == nil {
		switch n := decoded.(type) {
		case int, int64, uint64:
			return fmt.Sprint(n)
		case float64:
			if text := strconv.FormatFloat(n, 'f', -1, 64); strings.Contains(text, ".") {
				return text
			} else if strings.Contains(key, ".") && !math.IsInf(n, 0) && !math.IsNaN(n) {
				return text + ".0"
			}
		}
	}
	return key
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
