package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "state", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// opened is what a file of that content is read as, written and read again.
func opened(t *testing.T, content []byte) State {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	update(t, f, func(*State) {})
	f.Close()
	return open(t, path).Get()
}

func TestFormatOfBoshInit(t *testing.T) {
	st := opened(t, fixture(t, "bosh-init.json"))
	if st.CurrentVMCID != "i-0a1b2c3d" || st.Disk().CID != "vol-4e5f6a7b" || st.Stemcell().CID != "ami-8c9d0e1f light" || st.Stemcell().APIVersion != 0 || len(st.CurrentReleaseIDs) != 1 {
		t.Errorf("read %+v", st)
	}
	// It is another digest of something else.
	if st.CurrentManifestSHA != "" || st.Own.ManifestSHA1 != "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12" {
		t.Errorf("digests %q, %q", st.CurrentManifestSHA, st.Own.ManifestSHA1)
	}
	st.CurrentVMCID = ""
	if err := st.Settle(Intent{Method: "create_vm"}, "vm-2"); err != nil || st.Own.ManifestSHA1 != "" {
		t.Errorf("after a new VM: %q, %v", st.Own.ManifestSHA1, err)
	}
}

func TestFormatOfCreateEnv(t *testing.T) {
	st := opened(t, fixture(t, "create-env.json"))
	if st.CurrentVMCID != "vm-1" || st.Disk().Size != 65536 || st.Stemcell().APIVersion != 3 || st.CurrentManifestSHA == "" || st.Own.ManifestSHA1 != "" || st.Own.Serial != 1 {
		t.Errorf("read %+v", st)
	}
}

// Nothing of format 1 is lost, and what is written reads back.
func TestFormat1(t *testing.T) {
	data := fixture(t, "format-1.json")
	st := opened(t, data)
	if st.Own.Serial != 18 {
		t.Errorf("serial number %d", st.Own.Serial)
	}
	st.Own.Serial = 17
	got, err := json.MarshalIndent(&st, "", "    ")
	if err != nil || string(got)+"\n" != string(data) {
		t.Errorf("%v, read as\n%s", err, got)
	}
}

func TestNoFormatIsWithoutTest(t *testing.T) {
	entries, err := os.ReadDir("../testdata/state")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"bosh-deployments-plain.yml", "bosh-deployments.yml", "bosh-init.json", "create-env.json", "format-1.json"}; !slices.Equal(names, want) {
		t.Errorf("fixtures %v; each needs a test here", names)
	}
}

func TestDeploymentsYAML(t *testing.T) {
	st, err := fromDeploymentsYAML(fixture(t, "bosh-deployments.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if st.DirectorID != "bm-5480c6bb-3ba8-449a-a262-a2e75fbe5daf" || st.CurrentVMCID != "i-0a1b2c3d" || st.Disk() == nil || st.Disk().CID != "vol-4e5f6a7b" || st.Disk().Size != 0 {
		t.Errorf("read %+v", st)
	}
	if st.Stemcell() != nil || len(st.Stemcells) != 1 || st.Stemcells[0].CID != "ami-8c9d0e1f light" || st.Stemcells[0].Name != "bosh-stemcell-2807-aws-xen-ubuntu-trusty-go_agent" || st.Stemcells[0].Version != "" {
		t.Errorf("stemcells %+v", st.Stemcells)
	}
	st, err = fromDeploymentsYAML(fixture(t, "bosh-deployments-plain.yml"))
	if err != nil || st.DirectorID != "" || st.CurrentVMCID != "12345" || st.Disk() != nil || st.Stemcells[0].Name != "unknown-stemcell" {
		t.Errorf("read %+v, %v", st, err)
	}
	if _, err := fromDeploymentsYAML([]byte("instances: {")); err == nil {
		t.Error("no error")
	}
}

// The file of an old bosh-init counts where there is no state, and goes out of
// the way with the first write.
func TestLegacyFileIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	path, legacy := filepath.Join(dir, "state.json"), filepath.Join(dir, LegacyName)
	if err := os.WriteFile(legacy, fixture(t, "bosh-deployments.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := Options{Legacy: legacy, Warn: func(err error) { t.Errorf("warning: %v", err) }}
	f, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st := f.Get(); f.Found() || st.CurrentVMCID != "i-0a1b2c3d" || st.InstallationID == "" || len(f.Notes()) != 1 {
		t.Errorf("read %+v, %v", st, f.Notes())
	}
	if _, err := os.Stat(legacy); err != nil {
		t.Errorf("Open touched it: %v", err)
	}
	update(t, f, func(*State) {})
	if _, err := os.Stat(legacy + ".migrated"); err != nil {
		t.Error(err)
	}
	f.Close()
	// A state that is there counts alone.
	if err := os.WriteFile(legacy, []byte("instances: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(t.Context(), path, opts); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(t.Context(), path+"2", opts); err == nil || !strings.Contains(err.Error(), legacy) {
		t.Errorf("error %v", err)
	}
}
