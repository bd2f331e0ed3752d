package gen

import (
	"errors"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

// With any options, the result is a value that Check accepts, or an error that names the
// variable.
func FuzzOptions(f *testing.F) {
	for _, seed := range []string{
		"{}", "length: 5", "length: -1", "length: 1e9", "length: 65537",
		"{username: x, length: 3}", "{key_type: ed25519, ssh_comment: me}",
		"{is_ca: true, common_name: x}", "{ca: ca, common_name: 5, alternative_names: [a, 1.2.3.4, '::1', 7, true]}",
		"{ca: ca, key_usage: [key_agreement], extended_key_usage: [client_auth], duration: 3, organizations: [a, b, a]}",
		"{ca: ca, duration: 99999999999999999999}", "{is_ca: yes, duration: 100000}", "{ca: {}}", "{ca: ca, alternative_names: [[]]}",
		"{ca: v}", "{ca: ca, common_name: \"\\0\\u00e4\"}", "{ca: ca, alternative_names: ['']}", "{is_ca: true, key_length: 521}",
	} {
		for kind := range 5 {
			f.Add(kind, seed)
		}
	}
	v := values{}
	v.add(f, "certificate", "ca", quick(map[string]any{"is_ca": true}))
	f.Fuzz(func(t *testing.T, kind int, text string) {
		options := map[string]any{}
		if len(text) > 1000 || yaml.Unmarshal([]byte(text), &options) != nil {
			t.Skip()
		}
		d := Definition{Name: "v", Type: Types()[uint(kind)%uint(len(Types()))], Options: options}
		if _, slow := options["key_length"]; slow || d.Type == "rsa" || options["key_type"] != "ed25519" && d.Type != "password" && d.Type != "user" {
			if options == nil {
				options = map[string]any{}
				d.Options = options
			}
			Validate(d)
			if d.Type == "rsa" {
				return
			}
			delete(options, "key_length")
			options["key_type"] = "ecdsa"
		}
		Requires(d)
		value, err := new(Keys).Generate(d, v.find)
		var problem *OptionError
		switch {
		case errors.As(err, &problem):
			if problem.Variable != "v" || problem.Message == "" {
				t.Fatalf("%#v", problem)
			}
			return
		case err != nil:
			return
		}
		if list := Check(d, value, v.find, time.Now().Add(time.Second), 0); len(list) > 0 {
			t.Fatalf("%v: %s", options, findings(list))
		}
		if _, err := Rotate([]Definition{d}, nil, values{"v": value}, []string{"v"}); err != nil {
			t.Fatal(err)
		}
	})
}

// Check may get any stored value.
func FuzzCheck(f *testing.F) {
	v, defs := chain(f)
	for _, value := range v {
		text, err := yaml.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("{private_key: '-----BEGIN RSA PRIVATE KEY-----', username: a, password: b, password_hash: $6$$}")
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if len(text) > 1<<16 || yaml.Unmarshal([]byte(text), &value) != nil {
			t.Skip()
		}
		for _, kind := range append(Types(), "other") {
			Check(Definition{"v", kind, map[string]any{"username": "x"}}, value, v.find, time.Now(), month)
		}
		Validity(value)
		_, _ = new(Keys).Generate(defs[0], func(string) (any, bool) { return value, true })
		ExpiringWithin(defs, map[string]any{"leaf": value}, time.Now(), month)
	})
}
