package state

import (
	"os"
	"path/filepath"
	"slices"
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

// rewritten returns the state after a write without changes.
func rewritten(t *testing.T, content []byte) State {
	t.Helper()
	st, _, err := Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	st.Identify()
	st.Repair()
	next, err := st.Change(func(*State) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	data, err := next.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, own, err := Decode(data)
	if err != nil || !own {
		t.Fatalf("wrote %s, read with our own part %t: %v", data, own, err)
	}
	return again
}

func TestFormatOfBoshInit(t *testing.T) {
	st := rewritten(t, fixture(t, "bosh-init.json"))
	if st.CurrentVMCID != "i-0a1b2c3d" || st.Disk().CID != "vol-4e5f6a7b" || st.Stemcell().CID != "ami-8c9d0e1f light" || st.Stemcell().APIVersion != 0 || len(st.CurrentReleaseIDs) != 1 {
		t.Errorf("read %+v", st)
	}
	// create-env compares another digest than bosh-init.
	if st.CurrentManifestSHA != "" || st.Own.ManifestSHA1 != "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12" {
		t.Errorf("digests %q, %q", st.CurrentManifestSHA, st.Own.ManifestSHA1)
	}
	st.CurrentVMCID = ""
	if err := st.Settle(Intent{Method: "create_vm"}, "vm-2"); err != nil || st.Own.ManifestSHA1 != "" {
		t.Errorf("after a new VM: %q, %v", st.Own.ManifestSHA1, err)
	}
}

func TestFormatOfCreateEnv(t *testing.T) {
	st := rewritten(t, fixture(t, "create-env.json"))
	if st.CurrentVMCID != "vm-1" || st.Disk().Size != 65536 || st.Stemcell().APIVersion != 3 || st.CurrentManifestSHA == "" || st.Own.ManifestSHA1 != "" || st.Own.Serial != 1 {
		t.Errorf("read %+v", st)
	}
}

// Decode and Encode keep everything in format 1.
func TestFormat1(t *testing.T) {
	data := fixture(t, "format-1.json")
	st := rewritten(t, data)
	if st.Own.Serial != 18 {
		t.Errorf("serial number %d", st.Own.Serial)
	}
	st.Own.Serial = 17
	got, err := st.Encode()
	if err != nil || string(got)+"\n" != string(data) {
		t.Errorf("%v, read as\n%s", err, got)
	}
}

func TestEveryFormatHasATest(t *testing.T) {
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
	st, err := FromDeployments(fixture(t, "bosh-deployments.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if st.DirectorID != "bm-5480c6bb-3ba8-449a-a262-a2e75fbe5daf" || st.CurrentVMCID != "i-0a1b2c3d" || st.Disk() == nil || st.Disk().CID != "vol-4e5f6a7b" || st.Disk().Size != 0 {
		t.Errorf("read %+v", st)
	}
	if st.Stemcell() != nil || len(st.Stemcells) != 1 || st.Stemcells[0].CID != "ami-8c9d0e1f light" || st.Stemcells[0].Name != "bosh-stemcell-2807-aws-xen-ubuntu-trusty-go_agent" || st.Stemcells[0].Version != "" {
		t.Errorf("stemcells %+v", st.Stemcells)
	}
	st, err = FromDeployments(fixture(t, "bosh-deployments-plain.yml"))
	if err != nil || st.DirectorID != "" || st.CurrentVMCID != "12345" || st.Disk() != nil || st.Stemcells[0].Name != "unknown-stemcell" {
		t.Errorf("read %+v, %v", st, err)
	}
	if _, err := FromDeployments([]byte("instances: {")); err == nil {
		t.Error("no error")
	}
}

func FuzzDeployments(f *testing.F) {
	for _, name := range []string{"bosh-deployments.yml", "bosh-deployments-plain.yml"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", "state", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		st, err := FromDeployments(data)
		if err != nil {
			return
		}
		st.Identify()
		st.Repair()
		if st.Check() != nil {
			return
		}
		if _, err := st.Change(func(*State) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
