package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"

	"bootstrap/agent"
	"bootstrap/internal/atomicfile"
)

// loginRecord is what this machine remembers of a user that it had the agent
// make for one login, as logins/USER.json, 0600, in the folder of the
// installation. The process of the login holds the lock logins/USER.lock: once
// it has died, for whatever reason, the next run removes the user.
type loginRecord struct {
	VM   string `json:"vm"` // CID
	User string `json:"user"`
	Dir  string `json:"dir"` // temporary folder of the system's ssh
}

// loginUser matches the users that are made for logins.
var loginUser = regexp.MustCompile(`^bosh_[0-9a-f]{16}$`)

const loginDirPrefix = "bootstrap-ssh-"

// recordLogin remembers a login before its user is made. done forgets it, if
// the user is gone. A full disk is no reason not to log in.
func (v *VM) recordLogin(rec loginRecord) (done func(gone bool)) {
	done, err := v.keepLogin(rec)
	if err != nil {
		v.Report.Warning(fmt.Sprintf("the login is not recorded: if it is killed, its user stays on the VM: %v", err))
		return func(bool) {}
	}
	return done
}

func (v *VM) keepLogin(rec loginRecord) (done func(gone bool), err error) {
	dir := filepath.Join(v.Dir, "logins")
	path := filepath.Join(dir, rec.User+".json")
	data, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock := loginLock(path)
	if _, err = lock.TryLock(); err == nil {
		err = atomicfile.Write(path, data)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return func(gone bool) { forgetLogin(path, lock, gone) }, nil
}

func loginLock(path string) *flock.Flock {
	return flock.New(strings.TrimSuffix(path, ".json")+".lock", flock.SetPermissions(0o600))
}

// forgetLogin releases the lock of a login and, if nothing is left of it,
// removes its record.
func forgetLogin(path string, lock *flock.Flock, gone bool) {
	if gone {
		_ = os.Remove(path)
	}
	_ = lock.Close()
	if gone {
		_ = os.Remove(lock.Path())
	}
}

// EndLogins removes the users of logins whose process has died, from the VM
// whose agent answers, and their temporary folders.
func (v *VM) EndLogins(ctx context.Context) {
	dir := filepath.Join(v.Dir, "logins")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		lock := loginLock(path)
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue // the login goes on
		}
		forgetLogin(path, lock, v.endLogin(ctx, path))
	}
}

// endLogin reports whether nothing is left of the login.
func (v *VM) endLogin(ctx context.Context, path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	var rec loginRecord
	if json.Unmarshal(data, &rec) != nil || !loginUser.MatchString(rec.User) {
		return true // it says nothing
	}
	if strings.HasPrefix(filepath.Base(rec.Dir), loginDirPrefix) {
		_ = os.RemoveAll(rec.Dir)
	}
	if rec.VM != v.CID {
		return true // the user has gone with its VM
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if err := v.Agent.CleanupSSH(ctx, "^"+rec.User+"$"); err != nil && !agent.UnknownMessage(err) {
		v.Report.Warning(fmt.Sprintf("the user %s of a login that was killed may be left on the VM; the next run removes it: %v", rec.User, err))
		return false
	}
	return true
}
