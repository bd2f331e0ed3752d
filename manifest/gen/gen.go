// Package gen makes the values of a manifest's variables: passwords,
// certificates and keys, in the shapes that the stores of BOSH's command line
// hold. It also judges stored values, and plans which to make anew. It reads
// and writes no files.
package gen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Definition is an entry of the manifest's variables, its options interpolated.
type Definition struct {
	Name string
	// Type is password, certificate, ssh, rsa or user.
	Type string
	// Options are as the YAML document holds them; nil values count as absent.
	Options map[string]any
}

// OptionError is a definition that no value can be made from: an option that
// does not exist, or one whose value is not allowed.
type OptionError struct {
	Variable string
	// Option is empty where the definition as a whole, or its type, is wrong.
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

// Types lists the types that Generate knows, sorted.
func Types() []string {
	return []string{"certificate", "password", "rsa", "ssh", "user"}
}

// Parts lists the keys of a type's values; nil if they are texts.
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

// Generate makes a new value: a string for a password, else a map of strings:
//
//	certificate: certificate, private_key, ca
//	ssh:         private_key, public_key, public_key_fingerprint
//	rsa:         private_key, public_key
//	user:        username, password, password_hash
//
// The function ca finds the value of the certificate that is to sign. Errors
// of the definition are *OptionError, several of them joined.
func Generate(d Definition, ca func(name string) (value any, found bool)) (any, error) {
	o, problems := parse(d)
	if len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, p := range problems {
			errs[i] = p
		}
		return nil, errors.Join(errs...)
	}
	value, err := generate(d, o, ca)
	if err != nil {
		return nil, fmt.Errorf("cannot generate variable %q: %w", d.Name, err)
	}
	return value, nil
}

func generate(d Definition, o options, ca func(string) (any, bool)) (any, error) {
	switch d.Type {
	case "password":
		return random(lowerAndDigits, o.length), nil
	case "user":
		return user(o)
	case "ssh":
		return sshKey(o)
	case "rsa":
		return rsaKey(o)
	default: // parse lets no other type through
		return certificate(o, ca)
	}
}

// Validate tells what keeps Generate from making a value, other than the CA
// it needs: all of it, and without making keys.
func Validate(d Definition) []*OptionError {
	_, problems := parse(d)
	return problems
}

// Requires names the variables that Generate asks for: the CA of a
// certificate.
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
