package manifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"bootstrap/manifest/document"
)

func TestPlanAndRefuse(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "creds.yml")
	text := replaced(t, "https://mbus:sesame@", "https://mbus:((mbus_password))@",
		"cloud_provider:", "variables:\n- {name: mbus_password, type: password}\n- {name: other, type: rsa}\ncloud_provider:")
	m, err := Load(t.Context(), write(t, text), document.Options{VarsStore: store, Generate: document.Plan})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Generated, []string{"mbus_password", "other"}) || m.CPI.MBusURL.Host != "127.0.0.1:6868" {
		t.Errorf("generated %q, URL %v", m.Generated, m.CPI.MBusURL)
	}
	if _, err = Load(t.Context(), write(t, text), document.Options{VarsStore: store}); err == nil ||
		!strings.Contains(err.Error(), "its type is password, and it is not in the vars store "+store) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(store)); err != nil || len(entries) > 0 {
		t.Errorf("something was written: %v, %v", entries, err)
	}
	m, err = Load(t.Context(), write(t, text), document.Options{VarsStore: store, Generate: document.Write})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	var kept map[string]any
	if err := yaml.Unmarshal(data, &kept); err != nil {
		t.Fatal(err)
	}
	password, _ := m.CPI.MBusURL.User.Password()
	if password != kept["mbus_password"] || !slices.Contains(m.Secrets, password) {
		t.Errorf("password %q, secrets %q", password, m.Secrets)
	}
}

// If a manifest is invalid, no store is created.
func TestNothingIsWrittenForARefusedManifest(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "creds.yml")
	text := replaced(t, "instances: 1", "instances: 2") + "variables: [{name: pw, type: password}]\n"
	if _, err := Load(t.Context(), write(t, text), document.Options{VarsStore: store, Generate: document.Write}); err == nil {
		t.Fatal("accepted")
	}
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// If a stored certificate ends soon, or does not match its definition, a warning names
// its place in the store.
func TestWarningsOfStoredValues(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "creds.yml")
	file := func(options string) string {
		return write(t, minimal+"variables: [{name: ca, type: certificate, options: {is_ca: true, key_type: ecdsa, "+options+"}}]\n")
	}
	opts := document.Options{VarsStore: store, Generate: document.Write}
	m, err := Load(t.Context(), file("common_name: a, duration: 20"), opts)
	if err != nil || len(m.Warnings) > 0 {
		t.Fatal(err, m)
	}
	opts.Generate = document.Refuse
	m, err = Load(t.Context(), file("common_name: b, duration: 20"), opts)
	if err != nil || len(m.Warnings) != 2 || m.Warnings[0].Pos.File != store || m.Warnings[0].Pos.Line != 2 ||
		!strings.Contains(document.Problems(m.Warnings).Error(), "common_name") || !strings.Contains(document.Problems(m.Warnings).Error(), "bootstrap variables rotate") {
		t.Errorf("%v, %v", m, err)
	}
}
