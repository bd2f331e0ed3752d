package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// checked is a standard output that ends the program if it prints an object that is
// not as the schema says.
type checked struct {
	to     io.Writer
	schema *jsonschema.Schema
	held   []byte
}

// checkJSON returns the standard output of a program with the arguments, which is
// checked if they ask for JSON and path names a schema.
func checkJSON(path string, args []string) (io.Writer, error) {
	if path == "" || !slices.Contains(args, "--json") || slices.Contains(args, "ssh") {
		return os.Stdout, nil
	}
	data, err := os.ReadFile(path)
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
	schema, err := c.Compile("json.schema.json")
	return &checked{to: os.Stdout, schema: schema}, err
}

// closed forbids members that the schema does not name, which programs that read the
// output must accept.
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

func (c *checked) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.held = append(c.held, p[:n]...)
	for err == nil {
		line, rest, found := bytes.Cut(c.held, []byte("\n"))
		if !found {
			break
		}
		c.check(line)
		c.held = rest
	}
	return n, err
}

func (c *checked) check(line []byte) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err == nil {
		err = c.schema.Validate(v)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "this output is not as docs/json.schema.json says: %s: %v\n", line, err)
		os.Exit(97)
	}
}
