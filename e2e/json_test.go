//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checkJSON makes the script fail at its end if one of its programs printed JSON that
// does not fit docs/json.schema.json. The programs only store what they print, and do not
// check it themselves: making a schema takes longer than most of them run.
func checkJSON(env *testscript.Env) error {
	folder := filepath.Join(env.WorkDir, ".printed")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	env.Setenv("BOOTSTRAP_TRACE_JSON", folder)
	env.Defer(func() {
		if err := allAsSchema(folder); err != nil {
			env.T().Fatal(err)
		}
	})
	return nil
}

// allAsSchema compares the files of programs that printed JSON with the schema.
func allAsSchema(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) == 0 {
		return err
	}
	schema, err := jsonSchema()
	if err != nil {
		return err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		args, rest, _ := bytes.Cut(data, []byte("\n"))
		for {
			line, after, found := bytes.Cut(rest, []byte("\n"))
			if !found { // the program was killed
				break
			}
			rest = after
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			if err == nil {
				err = schema.Validate(value)
			}
			if err != nil {
				return fmt.Errorf("bootstrap %s printed what is not as docs/json.schema.json says: %s: %w", args, line, err)
			}
		}
	}
	return nil
}

// jsonSchema returns docs/json.schema.json, changed so that members which it does not
// name are errors. Programs that read the output must accept such members.
var jsonSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	data, err := os.ReadFile("../docs/json.schema.json")
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	closed(doc.(map[string]any)["$defs"])
	c := jsonschema.NewCompiler()
	if err := c.AddResource("json.schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("json.schema.json")
})

// closed makes members that the schema does not name errors.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok {
			v["additionalProperties"] = false
		}
		for _, child := range v {
			closed(child)
		}
	case []any:
		for _, child := range v {
			closed(child)
		}
	}
}
