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
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
)

// loginRecord is the file logins/USER.json, 0600, in the folder of the
// deployment: it records the user that the agent created for one login. The
// process of the login holds the lock logins/USER.lock. When that process has
// ended for any reason, the next run removes the user.
type loginRecord struct {
	VM   string `json:"vm"` // CID
	User string `json:"user"`
	Dir  string `json:"dir"` // the temporary folder for the system's ssh
}

// loginUser matches the users that are created for logins.
var loginUser = regexp.MustCompile(`^bosh_[0-9a-f]{16}$`)

const loginDirPrefix = "bootstrap-ssh-"

// recordLogin records a login before its user is created; done removes the record
// if the user was removed. A failure is only a warning: a full disk must not
// prevent a login.
func (v *VM) recordLogin(rec loginRecord) (done func(gone bool)) {
	done, err := v.keepLogin(rec)
	if err != nil {
		v.Report.Warning(fmt.Sprintf("cannot record the login: if it is killed, its user stays on the VM: %v", err))
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
		err = atomicfile.Replace(path, data)
	}
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return func(gone bool) { forgetLogin(path, lock, gone) }, nil
}

func loginLock(path string) *flock.Flock {
	return lockfile.New(strings.TrimSuffix(path, ".json") + ".lock")
}

// forgetLogin releases the lock of a login and, if its user was removed, removes
// its record.
func forgetLogin(path string, lock *flock.Flock, gone bool) {
	if gone {
		_ = os.Remove(path)
	}
	_ = lock.Close()
	if gone {
		_ = os.Remove(lock.Path())
	}
}

// EndLogins removes from the VM the users of logins whose process has ended, and
// removes the temporary folders of these logins.
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
			continue // the login continues
		}
		forgetLogin(path, lock, v.endLogin(ctx, path))
	}
}

// endLogin removes the user, the folder and the record of a login. It reports false if
// the user may still exist.
func (v *VM) endLogin(ctx context.Context, path string) bool {
	data, err := regular.Read(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	var rec loginRecord
	if json.Unmarshal(data, &rec) != nil || !loginUser.MatchString(rec.User) {
		return true // the record is unusable
	}
	if strings.HasPrefix(filepath.Base(rec.Dir), loginDirPrefix) {
		_ = os.RemoveAll(rec.Dir)
	}
	if rec.VM != v.CID {
		return true // the VM was deleted, and its users with it
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if err := v.Agent.CleanupSSH(ctx, "^"+rec.User+"$"); err != nil && !agent.UnknownMessage(err) {
		v.Report.Warning(fmt.Sprintf("the user %s of a killed login may still be on the VM; the next run removes it: %v", rec.User, err))
		return false
	}
	return true
}
