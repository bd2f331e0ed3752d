package addresses

import (
	"strings"

	"bootstrap/internal/failure"
)

// Kind is the reason why a ledger cannot be used.
type Kind string

// The kinds of errors.
const (
	Busy        Kind = "busy"        // others use it for too long
	ReadOnly    Kind = "read-only"   // it can be read, but not be changed
	Denied      Kind = "denied"      // the user has no access
	Full        Kind = "full"        // there is no room for more records
	Corrupt     Kind = "corrupt"     // it is damaged, or is not a ledger
	Newer       Kind = "newer"       // a newer version of this program wrote it
	Gone        Kind = "gone"        // it was removed or replaced while it was in use
	Unreachable Kind = "unreachable" // the server does not answer
	Failed      Kind = "failed"      // anything else
)

// Error says why the ledger cannot be used. The ledger contains everything that was
// committed before, and nothing of the failed transaction, unless the error says
// otherwise.
type Error struct {
	Ledger string // the path of the ledger, or its URL without password
	Kind   Kind
	Detail string // what happened
	Err    error
}

// Error returns the ledger, the cause and what to do about it.
func (e *Error) Error() string {
	text := "cannot use the address ledger " + e.Ledger + ": " + e.Detail
	if remedy := e.remedy(); remedy != "" && !strings.HasSuffix(text, remedy) {
		text += "; " + remedy
	}
	return text
}

func (e *Error) Name() string {
	if e.Kind == Busy {
		return "ledger-busy"
	}
	return "ledger-unusable"
}

func (e *Error) ExitCode() failure.Code {
	if e.Kind == Busy {
		return failure.Locked
	}
	return failure.Failed
}

func (e *Error) Unwrap() error { return e.Err }

// remedy returns the advice for the user.
func (e *Error) remedy() string {
	server := strings.HasPrefix(e.Ledger, "postgres")
	switch e.Kind {
	case Busy:
		return "run the same command again"
	case ReadOnly:
		if server {
			return "connect to the primary server, with a user who may write"
		}
		return "make the file and its folder writable for this user"
	case Denied:
		if server {
			return "correct the user, the password or the database in --database"
		}
		return "make the file and its folder readable and writable for this user"
	case Full:
		return "make room and run the same command again; nothing was changed"
	case Corrupt:
		if server {
			return "restore a backup of the database"
		}
		return "nothing was changed: move the file away and restore a backup, or make a new ledger from the states of all its deployments with: bootstrap addresses adopt MANIFEST"
	case Newer:
		return "use that version"
	case Gone:
		return "put it back, or make a new one from the states of all its deployments with: bootstrap addresses adopt MANIFEST; then run the same command again"
	case Unreachable:
		return "start the server or correct --database, and run the same command again: it finds out what was recorded"
	}
	return ""
}
