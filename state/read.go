package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// maxSize bounds a state file: a real one is below 1 MiB.
const maxSize = 64 << 20

// readWhole reads a state file, and nothing that is none: a folder, a device,
// a file of gigabytes.
func readWhole(path string) ([]byte, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f, path)
}

func readLimited(f io.Reader, path string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		return nil, fmt.Errorf("%s is larger than %d MiB, the limit for a state file", path, maxSize>>20)
	}
	return data, err
}

// isFile is an error unless there is a regular file at path.
func isFile(path string) error {
	info, err := os.Stat(path) // opening a pipe would wait for its writer
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	}
	return nil
}

// inWords says what encoding/json says in types of Go.
func inWords(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("it is empty")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(data[:min(max(int(syntax.Offset)-1, 0), len(data))], []byte("\n"))
		return fmt.Errorf("line %d: %w", line, err)
	case errors.As(err, &kind):
		where := ""
		if kind.Field != "" {
			where = kind.Field + ": " // of an item, it is the list
		}
		return fmt.Errorf("%s%s stands where %s belongs", where, given(kind.Value), wanted(kind.Type))
	}
	return err
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "a number"
	}
	return "a JSON object"
}

func given(value string) string {
	value, _, _ = strings.Cut(value, " ")
	switch value {
	case "array":
		return "a list"
	case "object":
		return "a JSON object"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "number":
		return "a number"
	}
	return value
}
