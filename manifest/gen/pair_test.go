package gen

import (
	"crypto/ed25519"
	"encoding/pem"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestCheckSSHKey(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("sesame"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(locked))
	if err := CheckSSHKey(text); err != nil {
		t.Errorf("with a passphrase: %v", err)
	}
	half := string(pem.EncodeToMemory(&pem.Block{Type: locked.Type, Bytes: locked.Bytes[:len(locked.Bytes)/2]}))
	for name, wrong := range map[string]string{"empty": "", "half": half, "certificate": block("CERTIFICATE", []byte("x"))} {
		if err := CheckSSHKey(wrong); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// All allowed values of an option are accepted, and no others.
func TestOptionsAreThoseOfParse(t *testing.T) {
	t.Parallel()
	for _, kind := range Types() {
		options, _ := Options(kind)
		for _, o := range options {
			try := func(value any) bool {
				for _, p := range Validate(Definition{Name: "v", Type: kind, Options: map[string]any{"is_ca": o.Name == "key_usage", o.Name: value}}) {
					if p.Option == o.Name {
						return false
					}
				}
				return true
			}
			for _, value := range o.Values {
				var given any = value
				if o.Form == Texts {
					given = []any{"key_cert_sign", value}
					if o.Name != "key_usage" {
						given = []any{value}
					}
				}
				if !try(given) {
					t.Errorf("%s: %s: %s is refused", kind, o.Name, value)
				}
			}
			wrong := map[Form]any{Text: []any{"a"}, Texts: "a", Whole: "a", Flag: "a"}[o.Form]
			if try(wrong) {
				t.Errorf("%s: %s: %v is taken", kind, o.Name, wrong)
			}
			if o.Values != nil && (try("other") || try([]any{"other"})) {
				t.Errorf("%s: %s: any value is taken", kind, o.Name)
			}
			if o.Most > 0 && o.Name != "key_length" && (!try(o.Most) || try(o.Most+1)) {
				t.Errorf("%s: %s: the largest value is not %d", kind, o.Name, o.Most)
			}
		}
	}
}
