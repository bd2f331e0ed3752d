package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// inWords rewords an error of encoding/json without Go's type names.
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
			where = kind.Field + ": " // the name of an item's field is that of the list
		}
		return fmt.Errorf("%s%s instead of %s", where, given(kind.Value), wanted(kind.Type))
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
