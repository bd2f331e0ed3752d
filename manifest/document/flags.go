package document

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// VarsKey is the key of Options.FlagsFile with variables and their values.
const VarsKey = "vars"

// Check parses a YAML file that has neither operations nor variables, and lets
// check read it. Every problem that is found is an error, a *Problems.
func Check(path string, data []byte, check func(top Value)) error {
	d := parse(path, data)
	if !d.problems.failed() {
		check(d.top())
	}
	if len(d.problems) == 0 {
		return nil
	}
	for i := range d.problems {
		d.problems[i].Warning = false
	}
	problems := d.problems.sorted()
	return &problems
}

// flagsFileVars returns the variables of the file at path; path may be empty.
func flagsFileVars(ctx context.Context, path string) (Value, error) {
	if path == "" {
		return Value{}, nil
	}
	data, err := readFile(ctx, "the flags", path)
	if err != nil {
		return Value{}, err
	}
	d := parse(path, data)
	return d.top().Get(VarsKey), nil // the caller of Evaluate has checked the file
}

// addFlagsFile adds the variables of the file at path; path may be empty.
func (d *document) addFlagsFile(ctx context.Context, vars variables, path string) error {
	given, err := flagsFileVars(ctx, path)
	if err != nil || !given.IsMap() {
		return err
	}
	named := slices.DeleteFunc(slices.Clone(given.node.entries), func(e entry) bool {
		_, isText := e.key.(string)
		return !isText
	})
	return vars.addEntries(named, path)
}

// flagsFile adds the variables of the file at path, and ignores the rest of it.
func (d inputsDigest) flagsFile(ctx context.Context, path string) error {
	given, err := flagsFileVars(ctx, path)
	if err != nil || !given.IsMap() {
		return err
	}
	data, err := json.Marshal(given.Plain())
	if err != nil {
		return fmt.Errorf("cannot compare the variables of %s: %v", path, err)
	}
	d.part("given", data)
	return nil
}
