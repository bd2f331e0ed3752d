package gen

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// forms returns a private key in all forms in which it may be stored.
func forms(t *testing.T, key crypto.Signer) map[string]string {
	t.Helper()
	native, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{
		"native":      native,
		"PKCS#8":      block("PRIVATE KEY", der),
		"wrong label": block("RSA PRIVATE KEY", der),
		"padded":      "\n# a comment\n" + native,
	}
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		list["parameters"] = block("EC PARAMETERS", []byte{6, 0}) + native
	}
	return list
}

func TestCAKeyForms(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		v := values{}
		ca := v.add(t, "certificate", "ca", map[string]any{"is_ca": true, "key_type": kind}).(map[string]any)
		key, err := parseKey(ca["private_key"].(string))
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range forms(t, key) {
			t.Run(kind+" "+form, func(t *testing.T) {
				t.Parallel()
				value := map[any]any{"certificate": ca["certificate"], "private_key": text}
				find := func(string) (any, bool) { return value, true }
				leaf, err := new(Keys).Generate(Definition{"leaf", "certificate", quick(map[string]any{"ca": "ca"})}, find)
				if err != nil {
					t.Fatal(err)
				}
				own := values{"leaf": leaf}
				if err := own.certificate(t, "leaf").CheckSignatureFrom(v.certificate(t, "ca")); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestCAErrors(t *testing.T) {
	t.Parallel()
	v, _ := chain(t)
	root := v["root"].(map[string]any)
	with := func(changes map[string]any) map[string]any {
		m := maps.Clone(root)
		maps.Copy(m, changes)
		return m
	}
	v.add(t, "ssh", "ssh", map[string]any{"key_type": "ed25519"})
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"absent":    {nil, `there is no variable "ca" with a value`},
		"text":      {"secret", `its value is text, but must be a map with certificate and private_key`},
		"empty":     {map[string]any{}, `its certificate: it contains no certificate in PEM form`},
		"no key":    {with(map[string]any{"private_key": nil}), `its private_key: it contains no private key in PEM form`},
		"swapped":   {with(map[string]any{"certificate": root["private_key"]}), `its certificate: it contains no certificate in PEM form`},
		"encrypted": {with(map[string]any{"private_key": block("ENCRYPTED PRIVATE KEY", []byte("x"))}), `its private_key: it is encrypted; only keys without a passphrase can be used`},
		"old encrypted": {with(map[string]any{"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"DEK-Info": "AES-256-CBC,00"}, Bytes: []byte("x")}))}),
			`its private_key: it is encrypted; only keys without a passphrase can be used`},
		"OpenSSH": {with(map[string]any{"private_key": v["ssh"].(map[string]any)["private_key"]}), `its private_key: it is in OpenSSH's own form, which cannot sign certificates`},
		"garbage": {with(map[string]any{"private_key": block("PRIVATE KEY", []byte("x"))}), `its private_key: it cannot be read as a PKCS#1, PKCS#8 or EC key (PEM type "PRIVATE KEY")`},
		"no pair": {with(map[string]any{"private_key": v["leaf"].(map[string]any)["private_key"]}), `its private_key does not belong to its certificate`},
		"leaf":    {v["leaf"], `it is not a CA (is_ca)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := new(Keys).Generate(Definition{"leaf", "certificate", quick(map[string]any{"ca": "ca"})}, func(string) (any, bool) { return c.value, c.value != nil })
			if err == nil || !strings.HasPrefix(err.Error(), `cannot generate variable "leaf": option ca: `) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
		})
	}
}

func TestExpiredCA(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := values{}
		v.add(t, "certificate", "ca", quick(map[string]any{"is_ca": true, "duration": 1}))
		time.Sleep(25 * time.Hour)
		_, err := new(Keys).Generate(Definition{"leaf", "certificate", quick(map[string]any{"ca": "ca"})}, v.find)
		if want := `cannot generate variable "leaf": option ca: variable "ca" cannot sign certificates: it expired on 2000-01-02 00:00 UTC; rotate it`; err == nil || err.Error() != want {
			t.Errorf("error is %v", err)
		}
	})
}
