//go:build unix

package instance

import (
	"errors"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"bootstrap/deployment/record"
	"bootstrap/internal/sealed"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// storeOf returns a function that opens a store as a process of a machine with this home.
func storeOf(t *testing.T, web *teamtest.Web) (open func(home, user string, pid int) *team.Copy) {
	t.Helper()
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	key, err := team.ParseGiven(team.Key{1, 2, 3}.Text())
	if err != nil {
		t.Fatal(err)
	}
	return func(home, user string, pid int) *team.Copy {
		s, err := team.Open(t.Context(), server.URL+"/prod", team.Config{
			Holder: state.Holder{User: user, Host: "here", PID: pid, Command: "deploy", Since: time.Now()},
			Getenv: func(string) string { return "" }, Given: key,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return team.CopyOf(home, s)
	}
}

// Nobody makes a new state key while a run of a deployment with several instances signs
// documents with the present one.
func TestRekeyWaitsForInstances(t *testing.T) {
	t.Parallel()
	web := &teamtest.Web{}
	open, homes := storeOf(t, web), []string{t.TempDir(), t.TempDir()}
	deploys := open(homes[0], "bob", os.Getppid())
	l, err := file.LockRecord(t.Context(), deploys, record.LockPath(deploys.RecordFolder()), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := record.Load(deploys.RecordFolder())
	if err != nil {
		t.Fatal(err)
	}
	all.KeepIn(deploys)
	if err := all.Save(); err != nil {
		t.Fatal(err)
	}
	rekeys := open(homes[1], "ann", os.Getpid())
	if _, err := rekeys.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, ok := errors.AsType[*team.HeldError](RekeyShared(t.Context(), rekeys, &sealed.Keys{}, nil, true))
	if !ok || held.Holder.User != "bob" {
		t.Errorf("during bob's run: %v", held)
	}
	if err := all.Save(); err != nil {
		t.Errorf("bob's run could not continue: %v", err)
	}
	l.Unlock(t.Context(), func(err error) { t.Error(err) })
	if unlock, err := rekeys.LockParts(t.Context()); err != nil || unlock() != nil {
		t.Errorf("after bob's run: %v", err)
	}
}
