package manifest

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"bootstrap/manifest/document"
)

const plannedText = `properties:
  whole: ((pw))
  text: "a-((pw))-b"
  pair: ((tls))
  ca: ((tls.ca))
  login: {name: ((admin.username)), password: ((admin.password))}
  url: https://admin:((pw))@((host))/?token=((key.public_key_fingerprint))
  keyed: {((pw)): 1}
variables:
- {name: pw, type: password}
- {name: key, type: ssh}
- {name: admin, type: user, options: {username: ((pw))}}
- {name: root, type: certificate, options: {is_ca: true, common_name: ((pw))}}
- {name: tls, type: certificate, options: {ca: root, alternative_names: [((host))]}}
- {name: stored, type: password}
cloud_provider:`

// A variable that is not generated yet has a text, or a map of texts, as its value, so
// that the manifest can be read and its templates rendered. These texts are not checked,
// and are not secrets.
func TestPlanPutsSymbols(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "creds.yml")
	if err := os.WriteFile(store, []byte("stored: kept-value\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	text := replaced(t, "cloud_provider:", plannedText, "https://mbus:sesame@127.0.0.1:6868", "https://mbus:((pw))@((host)):6868",
		"{name: vms, network: default,", "{name: vms, network: default, env: {bosh: {mbus: {cert: ((tls))}}},")
	text += "  cert: ((tls))\n  ssh_tunnel: {user: vcap, host: ((host)), port: ((pw)), private_key: ((key.private_key))}\n"
	// A plan does not wait for another process that generates values.
	lock := flock.New(store + ".lock")
	if got, err := lock.TryLock(); err != nil || !got {
		t.Fatal(got, err)
	}
	defer lock.Close()
	m, err := Load(t.Context(), write(t, text), document.Options{VarsStore: store, Generate: document.Plan, Vars: []string{"host=10.0.0.9"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"pw", "key", "admin", "root", "tls"}; !slices.Equal(slices.Sorted(slices.Values(m.Generated)), slices.Sorted(slices.Values(want))) {
		t.Errorf("generated %q", m.Generated)
	}
	tls := map[string]any{
		"ca": "<generated certificate tls.ca>", "certificate": "<generated certificate tls.certificate>", "private_key": "<generated certificate tls.private_key>",
	}
	want := map[string]any{
		"whole": "<generated password pw>", "text": "a-<generated password pw>-b", "pair": tls, "ca": tls["ca"],
		"login": map[string]any{"name": "<generated user admin.username>", "password": "<generated user admin.password>"},
		"url":   "https://admin:<generated password pw>@10.0.0.9/?token=<generated ssh key.public_key_fingerprint>",
		"keyed": map[string]any{"<generated password pw>": 1},
	}
	if !reflect.DeepEqual(m.Properties, want) {
		t.Errorf("got  %v\nwant %v", m.Properties, want)
	}
	if got := m.ResourcePool.Env["bosh"].(map[string]any)["mbus"].(map[string]any)["cert"]; !reflect.DeepEqual(got, tls) {
		t.Errorf("certificate of the agent: %v", got)
	}
	if m.CPI.MBus != "https://mbus:new@10.0.0.9:6868" || m.CPI.MBusURL.Host != "10.0.0.9:6868" || m.CPI.CA != "" || m.CPI.SSHTunnel.PrivateKey != "" {
		t.Errorf("installation %+v", m.CPI)
	}
	for _, secret := range m.Secrets {
		if strings.Contains(secret, "generated") || strings.Contains(secret, "((") {
			t.Errorf("a symbol is a secret: %q", secret)
		}
	}
	if !slices.Contains(m.Secrets, "kept-value") {
		t.Errorf("secrets %q", m.Secrets)
	}
	if !strings.Contains(sketchOf(t, m), "whole: ((pw))") {
		t.Errorf("sketch:\n%s", sketchOf(t, m))
	}
	if entries, err := os.ReadDir(filepath.Dir(store)); err != nil || len(entries) != 2 {
		t.Errorf("something was written: %v, %v", entries, err)
	}
}

// Such a value has the keys of a generated one, so a plan reports variables that a deploy
// could not fill in.
func TestPlanKnowsThePartsOfWhatWillBeGenerated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"((tls.cert))":    `has no key "cert"`,
		"((pw.password))": `((pw.password))`,
		"a-((tls))":       "the variable ((tls)) is a map",
		"((tls.ca))":      "",
	} {
		text := replaced(t, "cloud_provider:", "properties: {x: '"+text+"'}\nvariables:\n- {name: pw, type: password}\n- {name: tls, type: certificate, options: {is_ca: true, common_name: x}}\ncloud_provider:")
		_, err := Load(t.Context(), write(t, text), document.Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: document.Plan})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
