package deployment

import (
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// storeOf returns a function that opens a new store as a machine with this home does.
func storeOf(t *testing.T) (open func(home, user string) *team.Copy) {
	t.Helper()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	key, err := team.ParseGiven(team.Key{1, 2, 3}.Text())
	if err != nil {
		t.Fatal(err)
	}
	return func(home, user string) *team.Copy {
		s, err := team.Open(t.Context(), server.URL+"/prod", team.Config{
			Holder: state.Holder{User: user, Host: "here", PID: os.Getpid(), Command: "deploy", Since: time.Now()},
			Getenv: func(string) string { return "" }, Given: key,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return team.CopyOf(home, s)
	}
}

// lockStored locks the deployment of a store, and returns its record.
func lockStored(t *testing.T, c *team.Copy) (*record.Record, *file.RecordLock) {
	t.Helper()
	l, err := file.LockRecord(t.Context(), c, record.LockPath(c.RecordFolder()), file.Options{Holder: state.Holder{PID: os.Getpid()}})
	if err != nil {
		t.Fatal(err)
	}
	return loadStored(t, c), l
}

func loadStored(t *testing.T, c *team.Copy) *record.Record {
	t.Helper()
	r, err := record.Load(c.RecordFolder())
	if err != nil {
		t.Fatal(err)
	}
	r.KeepIn(c)
	return r
}

// unlockStored gives up the lock.
func unlockStored(t *testing.T, l *file.RecordLock) {
	t.Helper()
	l.Unlock(t.Context(), func(err error) { t.Error(err) })
}

// saveStored saves the record with instances of these ids.
func saveStored(t *testing.T, r *record.Record, ids ...string) {
	t.Helper()
	r.Name, r.Instances = "dep", nil
	for i, id := range ids {
		in := &record.Instance{ID: id, Group: "web", Index: i}
		in.State = r.NewState(in)
		r.Instances = append(r.Instances, in)
	}
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
}

// A command saves a record only if no run has changed it in the store since the command
// has read it, before the lock.
func TestSaveOfAChangedRecord(t *testing.T) {
	t.Parallel()
	open, homes := storeOf(t), []string{t.TempDir(), t.TempDir()}
	ann, bob := open(homes[0], "ann"), open(homes[1], "bob")
	r, lock := lockStored(t, ann)
	saveStored(t, r, "id-1")
	unlockStored(t, lock)

	if err := file.RefreshPart(t.Context(), bob.Record()); err != nil {
		t.Fatal(err)
	}
	old := loadStored(t, bob) // what bob's command plans with
	r, lock = lockStored(t, ann)
	saveStored(t, r, "id-1", "id-2")
	unlockStored(t, lock)

	_, lock = lockStored(t, bob)
	old.Instances = nil
	if err := old.Save(); err == nil || !strings.Contains(err.Error(), "another run has changed the record") || !strings.Contains(err.Error(), "run the same command again") {
		t.Errorf("the save of an old record: %v", err)
	}
	unlockStored(t, lock)
	for _, c := range []*team.Copy{ann, bob, open(t.TempDir(), "cid")} {
		if err := file.RefreshPart(t.Context(), c.Record()); err != nil {
			t.Fatal(err)
		}
		if now := loadStored(t, c); now.Serial != 2 || len(now.Instances) != 2 {
			t.Errorf("the record has serial %d and %d instances", now.Serial, len(now.Instances))
		}
	}
}

// A record that was moved away since a command has read it stays moved.
func TestSaveOfAMovedRecord(t *testing.T) {
	t.Parallel()
	open := storeOf(t)
	ann, bob := open(t.TempDir(), "ann"), open(t.TempDir(), "bob")
	r, lock := lockStored(t, ann)
	saveStored(t, r, "id-1")
	unlockStored(t, lock)
	if err := file.RefreshPart(t.Context(), bob.Record()); err != nil {
		t.Fatal(err)
	}
	old := loadStored(t, bob)

	r, lock = lockStored(t, ann)
	if err := r.Move("/elsewhere"); err != nil {
		t.Fatal(err)
	}
	unlockStored(t, lock)
	l, err := file.LockRecord(t.Context(), bob, record.LockPath(bob.RecordFolder()), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if moved, ok := errors.AsType[*state.MovedError](old.Save()); !ok || moved.To != "/elsewhere" {
		t.Errorf("the save of an old record: %v", moved)
	}
	unlockStored(t, l)
	_, err = record.Load(bob.RecordFolder())
	if _, ok := errors.AsType[*state.MovedError](err); !ok {
		t.Errorf("the record is not moved any more: %v", err)
	}
}
