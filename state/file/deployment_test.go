package file

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

func given(t *testing.T) team.Given {
	t.Helper()
	g, err := team.ParseGiven(team.NewKey().Text())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A run of a deployment that does not renew its lock loses it to another machine's run,
// and writes the record no more.
func TestLockRecordLost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	address, homes := server.URL+"/prod", []string{t.TempDir(), t.TempDir()}
	key := given(t)
	open := func(home string) *team.Copy {
		s, err := team.Open(t.Context(), address, team.Config{
			Getenv: func(string) string { return "" }, TTL: time.Second, Renew: time.Hour, Wait: time.Minute, Given: key,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return team.CopyOf(home, s)
	}
	write := func(c *team.Copy, text string) error {
		if err := atomicfile.Write(c.Record().StatePath(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		return RecordIn(c).Push(t.Context())
	}
	lock := func(c *team.Copy) *RecordLock {
		l, err := LockRecord(t.Context(), c, filepath.Join(c.RecordFolder(), "lock"), Options{Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := open(homes[0]), open(homes[1])
	ofA := lock(a)
	if err := write(a, `{"serial":1}`); err != nil {
		t.Fatal(err)
	}
	ofB := lock(b) // waits until A's lease has ended
	if data, err := os.ReadFile(b.Record().StatePath()); err != nil || string(data) != `{"serial":1}` {
		t.Errorf("B has %q, %v", data, err)
	}
	if err := ofA.Confirm(t.Context()); !isLost(err) {
		t.Errorf("A has the lock: %v", err)
	}
	if err := write(a, `{"serial":2}`); !isLost(err) {
		t.Errorf("A could write: %v", err)
	}
	ofA.Unlock(t.Context(), func(err error) { t.Error(err) })
	if err := write(b, `{"serial":2,"b":true}`); err != nil {
		t.Error(err)
	}
	ofB.Unlock(t.Context(), func(err error) { t.Error(err) })
	// What A could not send is in conflict with what B has written.
	_, err := LockRecord(t.Context(), a, filepath.Join(a.RecordFolder(), "lock"), Options{Wait: time.Minute})
	if _, conflict := errors.AsType[*team.ConflictError](err); !conflict {
		t.Errorf("A continues: %v", err)
	}
}

func isLost(err error) bool {
	_, lost := errors.AsType[*team.LostError](err)
	return lost
}
