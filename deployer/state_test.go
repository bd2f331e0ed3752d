//go:build unix

package deployer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/cpi"
	"bootstrap/state"
)

// If a disk was created and the state cannot be written any more, the error has the CID,
// and the next run records it.
func TestCreateThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	r := scriptedRun(t, map[string]string{"create_disk": `mv state.json kept.json && mkdir state.json && echo '{"result":"disk-2"}'`})
	_, err := r.journal.Create(t.Context(), state.Intent{Method: "create_disk", Size: 64}, func(client *cpi.Client) (string, error) {
		return client.CreateDisk(t.Context(), 64, nil, "")
	})
	path := filepath.Join(r.t.Dir, "state.json")
	if err == nil || !strings.Contains(err.Error(), "disk-2") || !strings.Contains(err.Error(), path+".rescue.json") {
		t.Fatalf("error %v", err)
	}
	r.t.State.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(r.t.Dir, "kept.json"), path); err != nil {
		t.Fatal(err)
	}
	r.t.StatePath = path
	if err := r.t.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer r.t.State.Close()
	st := r.t.State.Get()
	if !st.Owns("disk-2") || len(st.Own.Intents) != 0 || !strings.Contains(r.said(), "create_disk made disk-2; it is recorded now") {
		t.Errorf("state %+v\n%s", st, r.said())
	}
}
