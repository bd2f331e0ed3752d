// Package gen generates the values of a manifest's variables: passwords,
// certificates and keys, in the form of the bosh command's vars stores. It also
// checks stored values and plans rotations. It reads and writes no files.
package gen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Definition is an entry of the manifest's variables with interpolated options.
type Definition struct {
	Name string
	// Type is password, certificate, ssh, rsa or user.
	Type string
	// Options are the options in the YAML document; nil values count as absent.
	Options map[string]any
}

// OptionError describes why no value can be generated for a definition: an option
// does not exist, or its value is not allowed.
type OptionError struct {
	Variable string
	// Option is empty if the whole definition or its type is wrong.
	Option  string
	Message string // without the variable and the option
}

// Error returns one sentence that names the variable and the option.
func (e *OptionError) Error() string {
	if e.Option == "" {
		return fmt.Sprintf("cannot generate variable %q: %s", e.Variable, e.Message)
	}
	return fmt.Sprintf("cannot generate variable %q: option %s: %s", e.Variable, e.Option, e.Message)
}

// Types returns the types that Generate knows, sorted.
func Types() []string {
	return []string{"certificate", "password", "rsa", "ssh", "user"}
}

// Parts returns the keys of a type's values; nil if they are texts.
func Parts(kind string) []string {
	switch kind {
	case "certificate":
		return []string{"ca", "certificate", "private_key"}
	case "ssh":
		return []string{"private_key", "public_key", "public_key_fingerprint"}
	case "rsa":
		return []string{"private_key", "public_key"}
	case "user":
		return []string{"password", "password_hash", "username"}
	}
	return nil
}

func generate(d Definition, ca func(string) (any, bool), keys *Keys) (any, error) {
	o, problems := parse(d)
	if len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, p := range problems {
			errs[i] = p
		}
		return nil, errors.Join(errs...)
	}
	o.keys = keys
	value, err := generateFrom(d, o, ca)
	if err != nil {
		return nil, fmt.Errorf("cannot generate variable %q: %w", d.Name, err)
	}
	return value, nil
}

func generateFrom(d Definition, o options, ca func(string) (any, bool)) (any, error) {
	switch d.Type {
	case "password":
		return random(lowerAndDigits, o.length), nil
	case "user":
		return user(o)
	case "ssh":
		return sshKey(o)
	case "rsa":
		return rsaKey(o)
	default: // parse accepts no other type
		return certificate(o, ca)
	}
}

// Validate returns all reasons why Generate would fail, except for problems of the CA,
// without generating keys.
func Validate(d Definition) []*OptionError {
	_, problems := parse(d)
	return problems
}

// Requires returns the variables that Generate needs: the CA of a certificate.
func Requires(d Definition) []string {
	if d.Type != "certificate" {
		return nil
	}
	if name, ok := d.Options["ca"].(string); ok && name != "" {
		return []string{name}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
