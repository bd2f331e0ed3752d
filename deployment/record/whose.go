package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"bootstrap/internal/failure"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// StrayStateError says that the state file of an instance is not its own, or is older than
// the record has seen it.
type StrayStateError struct {
	Instance string
	State    string // path of the state file, or the store
	Stored   bool   // State is a store
	Of       string // the instance whose state it is; empty: it is none of the deployment
	// Installation is the installation id of the state of another deployment.
	Installation string
	Link         bool // State is a link to the state of Of
	// Missing is true if there is neither the state nor a version of it, although the record has
	// seen it.
	Missing bool
	// Serial is the serial number of an old state, and Seen the one that the record has
	// seen; 0: the state is not too old.
	Serial, Seen int
	// Version is the newest kept version of the deployment; 0: unknown.
	Version int
}

func (e *StrayStateError) Error() string {
	why := "it is the state of " + e.Of
	switch {
	case e.Missing:
		why = "it is missing, and no version of it is kept, but a command has made it, so its VM may exist"
	case e.Link:
		why = "it is a link to the state of " + e.Of
	case e.Seen > 0:
		why = fmt.Sprintf("it has the serial number %d, and the record of the deployment has seen number %d: an old state was put back, which lacks what was made since", e.Serial, e.Seen)
	case e.Of == "":
		why = fmt.Sprintf("it is the state of another deployment, with the installation_id %s", e.Installation)
	}
	return fmt.Sprintf("cannot use the deployment state of %s, %s: %s; nothing was changed", e.Instance, e.State, why)
}

func (e *StrayStateError) Name() string {
	if e.Missing {
		return "record-lost"
	}
	return "state-exchanged"
}

// ExitCode returns that of a missing state, because the state of the instance is elsewhere;
// or that of a document of a store which is not believed.
func (e *StrayStateError) ExitCode() failure.Code {
	if e.Stored {
		return failure.NotBelieved
	}
	return failure.NoState
}

func (e *StrayStateError) Hint() string {
	version := "N"
	if e.Version > 0 {
		version = fmt.Sprint(e.Version)
	}
	back := `put its own state back: "bootstrap state backups MANIFEST" lists the kept versions of all states, and "bootstrap state restore MANIFEST ` + version + `" restores one`
	switch {
	case e.Missing && e.Version == 0:
		of := "MANIFEST --instance " + e.Instance
		back = `"bootstrap state import ` + of + ` --vm-cid CID" records its VM again; if that does not exist any more, "bootstrap state rm ` + of + ` --force" forgets it`
	case e.Link:
		back = "remove the link; " + back
	case e.Stored:
		back = `"bootstrap state pull MANIFEST" discards what only this machine has; if the store has it, ` + back
	}
	return back
}

// Whose sets the installation id and the serial number of the state of the instance, for
// comparisons when it is read.
func (in *Instance) Whose(st state.State) {
	in.Installation, in.StateSerial = "", st.Own.Serial
	if st.InstallationID != in.ID {
		in.Installation = st.InstallationID
	}
}

// installation returns the installation id that the state of the instance has; empty: an
// earlier program has recorded the instance without its id, because its state was
// made before the instance was one of several.
func (in *Instance) installation() string {
	if in.Installation == "" && !in.Beside() && uuid.Validate(in.ID) == nil {
		return in.ID
	}
	return in.Installation
}

// Owns returns a function that refuses a state at the path of the instance's state, with a
// *StrayStateError, if it is not that of the instance, or older than the record has seen it.
func (r *Record) Owns(in *Instance) func(state.State) error {
	return func(st state.State) error {
		stray := StrayStateError{Instance: in.Name(), State: r.StatePath(in)}
		own := in.installation()
		switch {
		case in.Temporary:
			return nil
		case own == st.InstallationID, own == "" && r.owner(in, st.InstallationID) == nil:
			// Another tool writes no serial numbers.
			if st.Own.Serial == 0 || st.Own.Serial >= in.StateSerial {
				return nil
			}
			stray.Serial, stray.Seen = st.Own.Serial, in.StateSerial
		default:
			stray.Installation = st.InstallationID
			if other := r.owner(in, st.InstallationID); other != nil {
				stray.Of = other.Name()
			}
		}
		return r.stray(stray)
	}
}

// owner returns the other instance whose state has the installation id; nil: none of the
// record.
func (r *Record) owner(of *Instance, installation string) *Instance {
	for _, in := range slices.Concat(r.Instances, r.Former) {
		if in.ID != of.ID && (in.installation() == installation || in.ID == installation) {
			return in
		}
	}
	return nil
}

// stray completes the error about a state.
func (r *Record) stray(e StrayStateError) error {
	if place := team.PlaceOf(e.State); place != "" {
		e.State, e.Stored = place, true
		return &e
	}
	for _, v := range Versions(VersionsIn(r.dir)) {
		if v.Err == nil && len(v.Unreadable) == 0 {
			e.Version = v.Serial
			break
		}
	}
	return &e
}

// CheckLink returns a *StrayStateError if the state of the instance is a link to that of
// another one.
func (r *Record) CheckLink(in *Instance) error {
	path := r.StatePath(in)
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	to, err := file.Resolve(path)
	if err != nil {
		return err
	}
	for _, other := range slices.Concat(r.Instances, r.Former) {
		own, err := file.Resolve(r.StatePath(other))
		if err == nil && own == to && other.ID != in.ID {
			return r.stray(StrayStateError{Instance: in.Name(), State: path, Of: other.Name(), Link: true})
		}
	}
	return nil
}

// ReadState reads the state of an instance, without locking it. If there is none, found is
// false. The error is a *StrayStateError if it is not that of the instance. home is ~/.bosh.
func (r *Record) ReadState(in *Instance, home string) (st state.State, found bool, err error) {
	path := r.StatePath(in)
	if err := r.CheckLink(in); err != nil {
		return st, false, err
	}
	st, found, err = file.Read(path, home)
	if err != nil || !found {
		return st, found, err
	}
	err = r.Owns(in)(st)
	if stray, ok := errors.AsType[*StrayStateError](err); ok && stray.Seen > 0 {
		// The copy of a store is old while a command of this machine waits for the lock there.
		if by, failed := file.LockedBy(path); failed == nil && by != nil {
			err = nil
		}
	}
	return st, found, err
}

// CheckStates returns a *StrayStateError if the state of one of the instances is not its own,
// but exchanged, copied, linked or old, or if it was lost together with its versions. It
// leaves out states that cannot be read.
func (r *Record) CheckStates(list []*Instance, home string) error {
	for _, in := range list {
		_, found, err := r.ReadState(in, home)
		if stray, ok := errors.AsType[*StrayStateError](err); ok {
			return stray
		}
		if err == nil && !found && r.wholeLost(in) {
			return r.stray(StrayStateError{Instance: in.Name(), State: r.StatePath(in), Missing: true})
		}
	}
	return nil
}

// wholeLost reports whether the missing state of an instance was lost together with its
// versions: a command has made it, and none has removed it. Those of a store are missing here
// until they are copied.
func (r *Record) wholeLost(in *Instance) bool {
	if in.StateSerial == 0 || in.Going != "" || in.Temporary || in.Stored() || r.store != nil {
		return false
	}
	kept, err := file.Versions(r.StatePath(in))
	return err == nil && len(kept) == 0
}

// ForgetState makes the record in a folder forget that an instance had a state: a person has
// deleted it, or it was lost together with its versions. It does nothing if the instance is
// not in the record. who is named in the lock.
func ForgetState(ctx context.Context, dir, id string, who state.Holder) error {
	lock, err := file.LockRecord(ctx, nil, LockPath(dir), file.Options{Holder: who})
	if err != nil {
		return err
	}
	defer lock.Unlock(ctx, nil)
	r, err := Load(dir)
	if err != nil {
		return err
	}
	in, found := r.ByID(id)
	if !found || in.StateSerial == 0 {
		return nil
	}
	in.Installation, in.StateSerial = "", 0
	return r.Save()
}

// forgotten returns an error if the folder of a record without instances has states: a deploy
// would create their VMs again.
func forgotten(dir string) error {
	name, err := stateIn(dir)
	if err != nil || name == "" {
		return err
	}
	return unusable("the record of the deployment, %s, has no instances, but its folder has states of instances, such as %s: %s", filepath.Join(dir, FileName), name, restore(dir))
}

// stateIn returns the name of a state of an instance in a folder, which need not exist;
// empty: it has none.
func stateIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot look for the record of the deployment in %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && stateFile.MatchString(e.Name()) {
			return e.Name(), nil
		}
	}
	return "", nil
}
