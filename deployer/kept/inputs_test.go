package kept

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/manifest/document"
	"bootstrap/state"
)

func deployOf(key string, minute int, text string) Deploy {
	return Deploy{Key: key, Written: time.Unix(int64(minute)*60, 0).UTC(), Manifest: &document.Recorded{Document: text}}
}

// The newest deploys are kept, as many as the limits allow, in a file that only this user can
// read.
func TestInputs(t *testing.T) {
	t.Parallel()
	f := At(filepath.Join(t.TempDir(), "id"))
	if in, err := f.Inputs(); err != nil || in.All != nil || in.Store != "" {
		t.Errorf("without a file: %+v, %v", in, err)
	}
	var all Deploys
	for i := range mostInputs + 5 {
		all = all.With(deployOf(fmt.Sprint(i), i, "a"))
	}
	all = all.With(deployOf("3", 100, "b")) // deployed again
	if err := f.SetInputs(InputsFile{All: all, Store: "s3://x"}); err != nil {
		t.Fatal(err)
	}
	in, err := f.Inputs()
	got := in.All
	if err != nil || in.Store != "s3://x" || len(got) != mostInputs || got[0].Key != "3" || got[0].Manifest.Document != "b" || got[1].Key != "24" {
		t.Errorf("%d deploys, %q, %v", len(got), in.Store, err)
	}
	if _, found := got.Find("5"); found {
		t.Error("the oldest is kept")
	}
	if _, found := got.Find(""); found {
		t.Error("a deploy that has not finished is found")
	}
	if info, err := os.Stat(filepath.Join(f.dir, inputsFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	large := strings.Repeat("x", mostInputBytes/3)
	data, err := Deploys{deployOf("c", 3, large), deployOf("b", 2, large), deployOf("a", 1, large)}.Encode()
	if got, again := ParseInputs(data); err != nil || again != nil || len(got) != 2 || got[0].Key != "c" {
		t.Errorf("%d large deploys are kept, %v, %v", len(got), err, again)
	}
	if _, err := ParseInputs([]byte(`{"format":2}`)); err == nil {
		t.Error("a newer format is read")
	}
	if err := f.ForgetInputs(); err != nil || f.ForgetInputs() != nil {
		t.Error(err)
	}
}

// Stop and start do not change what a deploy has made; another deploy does.
func TestKey(t *testing.T) {
	t.Parallel()
	one := state.State{InstallationID: "a", CurrentManifestSHA: "1", Own: state.Own{Applied: map[string]string{"x": "1"}}}
	two := state.State{InstallationID: "b", CurrentManifestSHA: "1"}
	key := Key([]state.State{one, two})
	stopped := one
	stopped.Own.Stopped, stopped.Own.Serial = true, 7
	if key == "" || Key([]state.State{two, stopped}) != key {
		t.Error("stop, or another order, changes the key")
	}
	for _, other := range []state.State{{InstallationID: "a", CurrentManifestSHA: "2", Own: one.Own}, {InstallationID: "a", CurrentManifestSHA: "1"}} {
		if got := Key([]state.State{other, two}); got == key || got == "" {
			t.Errorf("another deploy has the key %q", got)
		}
	}
	if Key(nil) != "" || Key([]state.State{one, {InstallationID: "b"}}) != "" {
		t.Error("a deploy that has not finished has a key")
	}
}
