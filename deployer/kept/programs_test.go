package kept

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bootstrap/manifest"
)

// A machine runs no program that another one names: no health check, and no CPI. Its own
// programs stay.
func TestUnpackNamesNoPrograms(t *testing.T) {
	t.Parallel()
	page := manifest.HealthCheck{HTTP: "http://:80/"}
	program := manifest.HealthCheck{Exec: []string{"/bin/sh", "-c", "touch /tmp/owned"}}
	archive := filepath.Join(t.TempDir(), "rendered.tgz")
	if err := os.WriteFile(archive, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	machine := func(checks ...manifest.HealthCheck) Folder {
		f := At(t.TempDir())
		a := Applied{VM: "vm-1", Digest: "d", Applied: map[string]string{"spec": "s"}, Health: checks}
		if err := errors.Join(f.SetDeployment(Deployment{Name: "web", CPI: "/bin/cpi", Health: checks}), f.SetApplied(a, nil, archive, false)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	owner := machine(page, program)
	sent, err := owner.Bundle()
	if err != nil || strings.Contains(string(sent), "cpi") {
		t.Fatalf("%s %v", sent, err)
	}
	// A hostile machine sends more files than Bundle does.
	hostile, err := withFormat(bundle{Files: map[string][]byte{
		"installation.json": read(t, owner, "installation.json"), "applied/current/record.json": read(t, owner, "applied/"+owner.which().Current+"/record.json"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"honest": sent, "hostile": hostile} {
		other := At(t.TempDir())
		if err := other.Unpack(text); err != nil {
			t.Fatal(err)
		}
		d, _ := other.Deployment()
		a, _ := other.Applied(Current)
		if want := []manifest.HealthCheck{page}; !reflect.DeepEqual(d.Health, want) || !reflect.DeepEqual(a.Health, want) || d.OtherChecks != 1 || d.CPI != "" {
			t.Errorf("%s: %+v, %+v", name, d, a)
		}
		if again, err := other.Bundle(); err != nil || name == "honest" && string(again) != string(sent) {
			t.Errorf("%s: a machine that has changed nothing sends %s, %v", name, again, err)
		}
		if err := owner.Unpack(text); err != nil {
			t.Fatal(err)
		}
		d, _ = owner.Deployment()
		a, _ = owner.Applied(Current)
		if want := []manifest.HealthCheck{page, program}; !reflect.DeepEqual(d.Health, want) || !reflect.DeepEqual(a.Health, want) || d.OtherChecks != 0 || d.CPI != "/bin/cpi" {
			t.Errorf("%s: the machine that has deployed has %+v, %+v", name, d, a)
		}
	}
	// This machine has deployed something else.
	former := machine(program)
	if err := errors.Join(former.SetApplied(Applied{VM: "vm-1", Digest: "old"}, nil, archive, false), former.Unpack(sent)); err != nil {
		t.Fatal(err)
	}
	if d, _ := former.Deployment(); len(d.Health) != 1 || d.OtherChecks != 1 {
		t.Errorf("%+v", d)
	}
}

func read(t *testing.T, f Folder, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
