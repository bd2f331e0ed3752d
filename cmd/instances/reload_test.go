package instances

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment/record"
)

// What another run has written before the lock counts, not what was read before.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(names ...string) {
		var list []string
		for i, name := range names {
			id := strings.Repeat(string(rune('a'+i)), 8)
			list = append(list, `{"id": "`+id+`", "group": "`+name+`", "state": "`+name+`-`+id+`.json"}`)
		}
		if err := os.WriteFile(filepath.Join(dir, "deployment.json"), []byte(`{"format": 1, "instances": [`+strings.Join(list, ",")+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("db")
	old, err := record.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	write("db", "web")
	all, web := &Selection{Record: old, List: old.Instances}, &Selection{Record: old, Names: "web"}
	for s, want := range map[*Selection]string{all: "db/0 web/0", web: "web/0"} {
		if err := s.Reload(deployer.Options{}); err != nil || strings.Join(record.Names(s.List), " ") != want || s.Record == old {
			t.Errorf("%v, %v, want %s", record.Names(s.List), err, want)
		}
	}
	write("db")
	if _, unknown := errors.AsType[*instance.UnknownInstanceError](web.Reload(deployer.Options{})); !unknown {
		t.Error("a deleted instance is selected")
	}
	write()
	if _, none := errors.AsType[*instance.NoInstancesError](all.Reload(deployer.Options{})); !none {
		t.Error("a deployment without instances is selected")
	}
}
