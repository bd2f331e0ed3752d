package gen

import (
	"maps"
	"strings"
	"testing"
	"time"
)

const month = 30 * 24 * time.Hour

func findings(list []Finding) string {
	var lines []string
	for _, f := range list {
		lines = append(lines, string(f.Kind)+" "+f.Option+": "+f.String())
	}
	return strings.Join(lines, "\n")
}

// chain returns a store with a CA, an intermediate CA and a certificate.
func chain(t testing.TB) (values, []Definition) {
	v := values{}
	defs := []Definition{
		{"leaf", "certificate", quick(map[string]any{"ca": "middle", "common_name": "10.0.0.6", "alternative_names": []any{"10.0.0.6", "::0:1", "b.example"}, "extended_key_usage": []any{"client_auth"}})},
		{"middle", "certificate", quick(map[string]any{"is_ca": true, "ca": "root", "common_name": "middle"})},
		{"root", "certificate", quick(map[string]any{"is_ca": true, "common_name": "root", "organization": "us"})},
	}
	for i := len(defs) - 1; i >= 0; i-- {
		v.add(t, defs[i].Type, defs[i].Name, defs[i].Options)
	}
	return v, defs
}

func TestCheckFindsNothing(t *testing.T) {
	t.Parallel()
	v, defs := chain(t)
	for _, kind := range []string{"password", "user", "ssh", "rsa"} {
		defs = append(defs, Definition{Name: kind, Type: kind})
		v.add(t, kind, kind, nil)
	}
	for _, d := range defs {
		if list := Check(d, v[d.Name], v.find, time.Now(), month); len(list) != 0 {
			t.Error(findings(list))
		}
		// The value in the form of yaml.v2.
		if m, ok := v[d.Name].(map[string]any); ok {
			old := map[any]any{}
			for k, value := range m {
				old[k] = value
			}
			if list := Check(d, old, v.find, time.Now(), month); len(list) != 0 {
				t.Error(findings(list))
			}
		}
	}
}

func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	v, defs := chain(t)
	other, _ := chain(t)
	now := time.Now()
	for name, c := range map[string]struct {
		options map[string]any // changes of the certificate's options; nil removes
		value   map[string]any // changes of the certificate's value
		now     time.Time
		ca      values
		want    string
	}{
		"common name": {options: map[string]any{"common_name": "10.0.0.7"},
			want: `mismatch common_name: variable "leaf": the stored certificate has the common name "10.0.0.6", but the option common_name is "10.0.0.7"`},
		"no common name": {options: map[string]any{"common_name": nil}},
		"names": {options: map[string]any{"alternative_names": []any{"10.0.0.7", "b.example"}},
			want: `mismatch alternative_names: variable "leaf": the stored certificate is for "10.0.0.6", "::1", "b.example", but the option alternative_names is "10.0.0.7", "b.example"`},
		"same names":    {options: map[string]any{"alternative_names": []any{"b.example", "::1", "::ffff:10.0.0.6", "::1"}}},
		"is_ca":         {options: map[string]any{"is_ca": true}, want: `mismatch is_ca: variable "leaf": the stored certificate is not a CA, but the option is_ca is true`},
		"key type":      {options: map[string]any{"key_type": "ed25519"}, want: `mismatch key_type: variable "leaf": the stored key is ecdsa, but the option key_type is ed25519`},
		"key length":    {options: map[string]any{"key_length": 384}, want: `mismatch key_length: variable "leaf": the stored key has 256 bits, but the option key_length is 384`},
		"no key type":   {options: map[string]any{"key_type": nil}},
		"organization":  {options: map[string]any{"organization": "me"}, want: `mismatch organization: variable "leaf": the stored certificate has the organizations ["Cloud Foundry"], but the option organization is ["me"]`},
		"ext usage":     {options: map[string]any{"extended_key_usage": []any{"server_auth"}}, want: `mismatch extended_key_usage: variable "leaf": the extended key usages of the stored certificate differ from the option extended_key_usage`},
		"usage":         {options: map[string]any{"key_usage": []any{"key_agreement"}}, want: `mismatch key_usage: variable "leaf": the key usages of the stored certificate differ from the option key_usage`},
		"bad option":    {options: map[string]any{"key_type": "dsa", "alternative_names": "text"}},
		"new ca":        {ca: other, want: `other-ca ca: variable "leaf": the stored certificate was not signed by the current "middle"`},
		"other ca":      {options: map[string]any{"ca": "root"}, want: `other-ca ca: variable "leaf": the stored certificate was not signed by the current "root"`},
		"no ca yet":     {options: map[string]any{"ca": "later"}},
		"old ca field":  {value: map[string]any{"ca": other["middle"].(map[string]any)["ca"]}, want: `other-ca ca: variable "leaf": the ca in the stored value is not the current "middle"`},
		"two cas":       {value: map[string]any{"ca": other["middle"].(map[string]any)["certificate"].(string) + v["middle"].(map[string]any)["certificate"].(string)}},
		"no ca field":   {value: map[string]any{"ca": nil}},
		"expired":       {now: now.Add(400 * 24 * time.Hour), want: `expired : variable "leaf": the stored certificate expired on ` + moment(now.Add(365*24*time.Hour)) + `, 35 days ago`},
		"expiring":      {now: now.Add(355*24*time.Hour - time.Minute), want: `expiring : variable "leaf": the stored certificate expires on ` + moment(now.Add(365*24*time.Hour)) + `, in 10 days`},
		"expiring soon": {now: now.Add(365*24*time.Hour - time.Hour), want: `expiring : variable "leaf": the stored certificate expires on ` + moment(now.Add(365*24*time.Hour)) + `, in less than a day`},
		"just not":      {now: now.Add(334 * 24 * time.Hour)},
		"too early":     {now: now.Add(-time.Hour), want: `not-yet-valid : variable "leaf": the stored certificate is not valid before ` + moment(now)},
		"foreign key":   {value: map[string]any{"private_key": other["leaf"].(map[string]any)["private_key"]}, want: `malformed : variable "leaf": the stored private_key does not belong to the stored certificate`},
		"no key":        {value: map[string]any{"private_key": nil}, want: `malformed : variable "leaf": in the stored value, private_key is missing or not text`},
		"number":        {value: map[string]any{"certificate": 5}, want: `malformed : variable "leaf": in the stored value, certificate is missing or not text`},
		"garbage":       {value: map[string]any{"certificate": "garbage", "private_key": "x"}, want: `malformed : variable "leaf": the stored certificate cannot be read: it contains no certificate in PEM form`},
		"garbage key":   {value: map[string]any{"private_key": "garbage"}, want: `malformed : variable "leaf": the stored private_key cannot be used: it contains no private key in PEM form`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := defs[0]
			d.Options = maps.Clone(d.Options)
			maps.Copy(d.Options, c.options)
			value := maps.Clone(v["leaf"].(map[string]any))
			maps.Copy(value, c.value)
			if c.now.IsZero() {
				c.now = now.Add(time.Minute)
			}
			ca := v
			if c.ca != nil {
				ca = c.ca
			}
			if got := findings(Check(d, value, ca.find, c.now, month)); got != c.want {
				t.Errorf("findings are\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestCheckCA(t *testing.T) {
	t.Parallel()
	v, defs := chain(t)
	middle, root := defs[1], defs[2]
	middle.Options = quick(map[string]any{"is_ca": true, "common_name": "middle"})
	if got, want := findings(Check(middle, v["middle"], v.find, time.Now(), month)), `mismatch ca: variable "middle": the stored certificate was signed by another CA ("root"), but there is no option ca`; got != want {
		t.Errorf("findings are %s", got)
	}
	root.Options = quick(map[string]any{"ca": "middle", "common_name": "root"})
	want := `mismatch is_ca: variable "root": the stored certificate is a CA, but the option is_ca is not true
other-ca ca: variable "root": the stored certificate was not signed by the current "middle"`
	if got := findings(Check(root, v["root"], v.find, time.Now(), month)); got != want {
		t.Errorf("findings are %s", got)
	}
}

func TestCheckOtherTypes(t *testing.T) {
	t.Parallel()
	v := values{}
	user := v.add(t, "user", "u", nil).(map[string]any)
	key := v.add(t, "ssh", "k", map[string]any{"key_type": "ed25519"}).(map[string]any)
	rsa := v.add(t, "rsa", "r", nil).(map[string]any)
	with := func(m map[string]any, k string, value any) map[string]any {
		m = maps.Clone(m)
		m[k] = value
		return m
	}
	for name, c := range map[string]struct {
		kind    string
		options map[string]any
		value   any
		want    string
	}{
		"number":     {"password", nil, 1234, "malformed : the stored password is a number, but must be text"},
		"empty":      {"password", nil, "", "malformed : the stored password is empty, but must be text"},
		"null":       {"password", nil, nil, "malformed : the stored password is empty, but must be text"},
		"text":       {"ssh", nil, "secret", "malformed : the stored value is text, but must be a map with private_key and public_key"},
		"list":       {"certificate", map[string]any{"is_ca": true}, []any{}, "malformed : the stored value is a list, but must be a map with certificate and private_key"},
		"user":       {"user", map[string]any{"username": "admin"}, with(user, "username", "root"), `mismatch username: the stored user has the name "root", but the option username is "admin"`},
		"hash":       {"user", nil, with(user, "password", "secret"), "malformed : the stored password_hash does not match the stored password"},
		"no hash":    {"user", nil, with(user, "password_hash", nil), ""},
		"key type":   {"ssh", map[string]any{"key_type": "rsa"}, key, "mismatch key_type: the stored key is ed25519, but the option key_type is rsa"},
		"rsa length": {"rsa", map[string]any{"key_length": 4096}, rsa, "mismatch key_length: the stored key has 2048 bits, but the option key_length is 4096"},
		"no pair":    {"rsa", nil, with(rsa, "public_key", key["public_key"]), "malformed : the stored public_key does not belong to the stored private_key"},
		"garbage":    {"ssh", nil, with(key, "public_key", "secret"), "malformed : the stored public_key cannot be read"},
		"no key":     {"ssh", nil, with(key, "private_key", "secret"), "malformed : the stored private_key cannot be read"},
		"new type":   {"jwt", nil, "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, f := range Check(Definition{"v", c.kind, c.options}, c.value, v.find, time.Now(), month) {
				got += string(f.Kind) + " " + f.Option + ": " + f.Message
			}
			if got != c.want {
				t.Errorf("findings are\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestValidity(t *testing.T) {
	t.Parallel()
	v, _ := chain(t)
	from, to, ok := Validity(v["leaf"])
	if !ok || to.Sub(from) != 365*24*time.Hour {
		t.Errorf("%s to %s, %v", from, to, ok)
	}
	for _, value := range []any{nil, "text", map[string]any{}, map[string]any{"certificate": "x"}, map[string]any{"private_key": "x", "public_key": "y"}} {
		if _, _, ok := Validity(value); ok {
			t.Errorf("%v is valid for a time", value)
		}
	}
}
