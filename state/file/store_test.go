package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/state"
)

// with opens the state with a home, and fails the test on warnings.
func with(t *testing.T, path, home string) *Store {
	t.Helper()
	f, err := Open(t.Context(), path, Options{Home: home, Warn: func(err error) { t.Errorf("warning: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func update(t *testing.T, f *Store, change func(*state.State)) {
	t.Helper()
	if err := f.Update(func(s *state.State) error { change(s); return nil }); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// If the first write fails, no folder of the installation remains.
func TestFirstWriteFails(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(t.TempDir(), "in", "state.json")
	for _, fails := range []bool{true, false} {
		f, err := Open(t.Context(), path, Options{Home: home})
		if err != nil || !f.Fresh() {
			t.Fatalf("fresh %t, %v", err == nil, err)
		}
		if fails { // a folder at its path prevents the rename
			if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		err = f.Update(func(*state.State) error { return nil })
		if (err == nil) == fails || f.Fresh() != fails {
			t.Errorf("error %v, fresh %t", err, f.Fresh())
		}
		f.Close()
		left, err := os.ReadDir(home)
		if err != nil || (len(left) == 0) != fails {
			t.Errorf("left %v, %v", left, err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Two copies of a state file share one installation, which is also locked.
func TestInstallationIsLocked(t *testing.T) {
	dir := t.TempDir()
	path, twin, home := filepath.Join(dir, "state.json"), filepath.Join(dir, "twin.json"), filepath.Join(dir, "home")
	f := with(t, path, home)
	update(t, f, func(*state.State) {})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(twin, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := Open(t.Context(), twin, Options{Home: home}); !errors.As(err, &locked) || locked.What != "the installation" {
		t.Fatalf("error %v", err)
	}
	// The next holder creates the folder again.
	if err := os.RemoveAll(f.dir()); err != nil {
		t.Fatal(err)
	}
	with(t, twin, home)
}

func TestLockWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	first := open(t, path)
	waiting := make(chan *LockedError, 1)
	opts := Options{Wait: time.Minute, Waiting: func(l *LockedError) { waiting <- l }}
	type result struct {
		f   *Store
		err error
	}
	done := make(chan result, 1)
	go func() {
		f, err := Open(t.Context(), path, opts)
		done <- result{f, err}
	}()
	if l := <-waiting; l.Holder.PID != os.Getpid() {
		t.Errorf("holder %+v", l.Holder)
	}
	first.Close()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.f.Close()

	ctx, cancel := context.WithCancel(t.Context())
	opts.Waiting = func(*LockedError) { cancel() }
	if _, err := Open(ctx, path, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	var locked *LockedError
	if _, err := Open(t.Context(), path, Options{Wait: time.Millisecond}); !errors.As(err, &locked) {
		t.Errorf("too long: %v", err)
	}
}

// Open removes only temporary files that an interrupted write left behind.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".state.json1234", ".state.json", ".state.json.swp", ".state.json12x", "state.json1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, filepath.Join(dir, "state.json"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".state.json", ".state.json.swp", ".state.json12x", "state.json.lock", "state.json1"}; !slices.Equal(names, want) {
		t.Errorf("left %v", names)
	}
}

// A read-only store needs no lock and writes nothing.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	legacy := filepath.Join(dir, LegacyName)
	if err := os.WriteFile(legacy, fixture(t, "bosh-deployments.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenReadOnly(filepath.Join(dir, "state.json"), Options{Home: filepath.Join(dir, "home"), Legacy: legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st := f.Get(); st.CurrentVMCID != "i-0a1b2c3d" || f.Found() || len(f.Notes()) != 1 {
		t.Errorf("read %+v, %v", st, f.Notes())
	}
	if f.Update(func(*state.State) error { return nil }) == nil {
		t.Error("it was written")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); !slices.Equal(left, []string{legacy}) {
		t.Errorf("left %v", left)
	}
}

func TestLinkToNothingIsFollowed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("real.json", filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	update(t, open(t, filepath.Join(dir, "link.json")), func(*state.State) {})
	if _, err := os.Stat(filepath.Join(dir, "real.json")); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("loop.json", filepath.Join(dir, "loop.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "loop.json"), Options{}); err == nil || !strings.Contains(err.Error(), "leads to itself") {
		t.Errorf("error %v", err)
	}
}

// A bosh-deployments.yml becomes the state if there is none, and is renamed by the
// first write.
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
	update(t, f, func(*state.State) {})
	if _, err := os.Stat(legacy + ".migrated"); err != nil {
		t.Error(err)
	}
	f.Close()
	// If there is a state file, the bosh-deployments.yml is ignored.
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

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "state", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
