package manifest

import (
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// In a sketch, operations are applied, variables are not filled in, and plain-text
// secrets are redacted.
func sketchOf(t *testing.T, m *Manifest) string {
	t.Helper()
	text, err := m.Sketch()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSketch(t *testing.T) {
	t.Parallel()
	text := replaced(t, "mbus:sesame@", "mbus:((mbus_password))@", "cloud_provider:", `properties:
  port: ((port))
  db: {password: plain-1, pin: 5, passwords: [plain-2, ((listed))], token: 12345, secret: false, private_key: ~/.ssh/id}
  partly: {password: before((x))after}
  urls:
  - postgres://user:plain-3@db/x
  - https://plain-4@git.example/x
  - https://u:pl/ain-5#x@host and ftp://v:plain-6@host/
  - https://u:((part))plain-7@host
  - https://host:8080/kept@v1
  - https://host/kept?x=1
  https://u:plain-8@host/: x
  pem: |
    kept
    -----BEGIN CERTIFICATE-----
    plain-9
    -----END CERTIFICATE-----
    kept too
  half: "-----BEGIN RSA PRIVATE KEY-----\nplain-10"
variables:
- {name: port}
- {name: made, type: password}
cloud_provider:`)
	ops := write(t, `- type: replace
  path: /properties/added?
  value: {any: ((from_ops)), api_key: plain-11}
`)
	m, err := Load(t.Context(), write(t, text), document.Options{Ops: []string{ops}, Vars: []string{
		"mbus_password=hidden-1", "port=hidden-2", "listed=hidden-3", "x=hidden-4", "part=hidden-5", "from_ops=hidden-6", "made=hidden-7",
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := sketchOf(t, m)
	for _, want := range []string{
		"port: ((port))", "mbus: https://mbus:((mbus_password))@127.0.0.1:6868", "pin: 5", "secret: false", "private_key: ~/.ssh/id",
		"password: <redacted>((x))<redacted>", "- postgres://user:<redacted>@db/x", "- https://<redacted>@git.example/x",
		"- https://u:((part))<redacted>@host", "- https://host:8080/kept@v1", "- https://host/kept?x=1", "token: <redacted>",
		"kept\n    <redacted>\n    kept too", "half: <redacted>", "any: ((from_ops))", "name: made", "- ((listed))",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, secret := range []string{"plain-", "hidden-", "ain-5"} {
		if strings.Contains(got, secret) {
			t.Errorf("it holds %q", secret)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	if list, err := document.Diff([]byte(got), []byte(got)); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
