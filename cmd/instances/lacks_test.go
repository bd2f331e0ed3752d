package instances

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// A damaged or lost state is not one of an instance without a VM.
func TestLacksVM(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{"created", "new", "detached", "damaged", "lost", "deleted"}
	var list []string
	path := map[string]string{}
	for i, name := range names {
		id := strings.Repeat(string(rune('a'+i)), 8)
		path[name] = filepath.Join(dir, name+"-"+id+".json")
		list = append(list, `{"id": "`+id+`", "group": "`+name+`", "state": "`+filepath.Base(path[name])+`"}`)
	}
	if err := os.WriteFile(filepath.Join(dir, "deployment.json"), []byte(`{"format": 1, "instances": [`+strings.Join(list, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, change func(*state.State)) *file.Store {
		s, err := file.Open(t.Context(), path[name], file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(func(st *state.State) error { change(st); return nil }); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, name := range []string{"created", "lost", "deleted"} {
		run(name, func(st *state.State) { st.CurrentVMCID = "vm-" + name }).Close()
	}
	run("detached", func(st *state.State) { st.Own.Stopped, st.Own.Detached = true, true }).Close()
	if err := os.WriteFile(path["damaged"], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path["lost"]); err != nil {
		t.Fatal(err)
	}
	deleted := run("deleted", func(st *state.State) { st.Forget("delete_vm", "vm-deleted") })
	if err := deleted.Remove(); err != nil {
		t.Fatal(err)
	}
	deleted.Close()
	all, err := record.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &Selection{Record: all, List: all.Instances}
	opts := deployer.Options{}
	opts.Manifest = filepath.Join(dir, "manifest.yml")
	for does, want := range map[deployment.Lifecycle]string{deployment.Stop: "new detached deleted", deployment.Start: "new deleted"} {
		var lack []string
		for i, in := range s.List {
			if s.lacksVM(t.Context(), opts, i, does) {
				lack = append(lack, in.Group)
			}
		}
		if got := strings.Join(lack, " "); got != want {
			t.Errorf("%s: %s lack a VM, want %s", does, got, want)
		}
	}
}
