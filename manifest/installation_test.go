package manifest

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/manifest/gen"

	"bootstrap/manifest/document"
)

// key returns a private key in PEM. Its content is not valid.
func key(header string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: header, Bytes: bytes.Repeat([]byte("key"), 40)}))
}

// sshKeys returns private keys by their PEM headers.
func sshKeys(t *testing.T) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for header, d := range map[string]gen.Definition{
		"RSA PRIVATE KEY":     {Type: "ssh"},
		"EC PRIVATE KEY":      {Type: "ssh", Options: map[string]any{"key_type": "ecdsa"}},
		"OPENSSH PRIVATE KEY": {Type: "ssh", Options: map[string]any{"key_type": "ed25519"}},
		"PRIVATE KEY":         {Type: "certificate", Options: map[string]any{"key_type": "ed25519", "is_ca": true}},
	} {
		value, err := new(gen.Keys).Generate(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		keys[header] = value.(map[string]any)["private_key"].(string)
		if !strings.HasPrefix(keys[header], "-----BEGIN "+header+"-----") {
			t.Fatalf("the key for %s is another", header)
		}
	}
	return keys
}

// indented returns text as an indented YAML block.
func indented(text string) string {
	return "|\n      " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      ") + "\n"
}

func TestTunnelAndRegistry(t *testing.T) {
	t.Parallel()
	const tunnel = minimal + "  ssh_tunnel:\n    user: vcap\n    host: 10.0.0.9\n"
	keys := sshKeys(t)
	for header, text := range keys {
		m := mustLoad(t, tunnel+"    private_key: "+indented(text))
		if got := m.CPI.SSHTunnel; got.PrivateKey != text || got.Port != 22 || got.User != "vcap" || got.Host != "10.0.0.9" {
			t.Errorf("%s: got %+v", header, got)
		}
		if !slices.Contains(m.Secrets, strings.TrimSpace(text)) {
			t.Errorf("%s: the key is not among the secrets", header)
		}
	}

	path := write(t, tunnel+"    private_key: keys/id\n    port: 2222\n    password: sesame2\n    connection_refused_timeout: 90\n    auth_failure_timeout: 2m30s\n")
	keyPath := filepath.Join(filepath.Dir(path), "keys", "id")
	if err := os.MkdirAll(filepath.Dir(keyPath), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keyPath, []byte(keys["RSA PRIVATE KEY"]), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Load(t.Context(), path, document.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := SSHTunnel{"vcap", "10.0.0.9", 2222, "sesame2", keys["RSA PRIVATE KEY"], 90 * time.Second, 150 * time.Second}
	if *m.CPI.SSHTunnel != want {
		t.Errorf("got %+v, want %+v", *m.CPI.SSHTunnel, want)
	}
	if slices.Contains(m.Secrets, "keys/id") || !slices.Contains(m.Secrets, "sesame2") {
		t.Errorf("secrets: %q", m.Secrets)
	}

	defaults := Registry{Host: "127.0.0.1", Port: 6901, Username: "registry", OpenGet: true}
	for text, want := range map[string]*Registry{
		minimal: nil,
		tunnel:  &defaults,
		minimal + "  ssh_tunnel: {user: '', port: 0}\n": nil,
		minimal + "  registry: {}\n":                    &defaults,
		minimal + "  registry:\n":                       nil,
		minimal + "  registry: {port: 0}\n":             {"127.0.0.1", 0, "registry", "", true},
		minimal + "  registry: {host: localhost, port: 7000, username: u, password: sesame3, unauthenticated_get: no}\n": {"localhost", 7000, "u", "sesame3", false},
		tunnel + "  registry: {password: 12345}\n": {"127.0.0.1", 6901, "registry", "12345", true},
	} {
		if got := mustLoad(t, text).CPI.Registry; !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v for:\n%s", got, want, text)
		}
	}
}

func TestPrivateKeyProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"public": "ssh-rsa AAAA me", "empty": "", "huge": strings.Repeat("x", 1<<20)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for value, want := range map[string]string{
		dir:                                    "it is not a regular file",
		dir + "/public":                        "is not a private key in PEM",
		dir + "/empty":                         "is not a private key in PEM",
		dir + "/huge":                          "it is too large to be a key",
		dir + "/absent":                        dir + "/absent: no such file",
		"ssh-ed25519 AAAA me@host":             "is a public key",
		"-----BEGIN RSA PRIVATE KEY-----":      "is not a private key in PEM",
		indented(key("CERTIFICATE")):           "contains a certificate",
		indented(key("RSA PRIVATE KEY")):       "is damaged, incomplete, or of a type",
		indented(key("ENCRYPTED PRIVATE KEY")): "ssh-keygen -p",
		"\"----BEGIN SSH2 ENCRYPTED----\"":     "is not a private key in PEM",
		"[a]":                                  "must be text, not a list",
	} {
		text := minimal + "  ssh_tunnel:\n    user: vcap\n    host: h\n    private_key: " + value + "\n"
		_, err := Load(t.Context(), write(t, text), document.Options{})
		if err == nil || !strings.Contains(err.Error(), "cloud_provider.ssh_tunnel.private_key: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", value, err, want)
		}
	}
}

func TestMBus(t *testing.T) {
	t.Parallel()
	const place = ":12:9: cloud_provider.mbus: "
	for url, want := range map[string]string{
		"http://mbus:sesame@h:1":      "must begin with https://; ",
		"https://h:1":                 "must have a user, must have a password; ",
		"https://mbus@h:1":            "must have a password; ",
		"https://:sesame@h:1":         "must have a user; ",
		"https://mbus:sesame@":        "must have a host; ",
		"mbus:sesame@h:1":             "must begin with https://, must have a host, ",
		"https://mbus:se/same@h:1":    "is not a valid URL; ",
		"https://mbus:se%zzsame@h:1":  "is not a valid URL; ",
		"https://mbus:sesame@h:0":     "must have a port from 1 to 65535; ",
		"https://mbus:sesame@h:99999": "must have a port from 1 to 65535; ",
		"https://mbus:sesame@h:port":  "is not a valid URL; ",
		"''":                          "must not be blank",
		"~":                           "must be provided",
	} {
		_, err := Load(t.Context(), write(t, replaced(t, "https://mbus:sesame@127.0.0.1:6868", url)), document.Options{})
		if err == nil || !strings.Contains(err.Error(), place+want) {
			t.Errorf("%s: got %v, want %s", url, err, want)
		} else if strings.Contains(err.Error(), "same") {
			t.Errorf("%s: the message contains the password: %v", url, err)
		}
	}
	m := mustLoad(t, replaced(t, "sesame", "p%2Fs%40s"))
	if password, _ := m.CPI.MBusURL.User.Password(); password != "p/s@s" {
		t.Errorf("password %q", password)
	}
	if !slices.Contains(m.Secrets, "p/s@s") || !slices.Contains(m.Secrets, "p%2Fs%40s") {
		t.Errorf("secrets %q", m.Secrets)
	}
}
