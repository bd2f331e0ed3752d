// Package record stores the instances of a deployment with many instances in a file
// deployment.json, in the folder of their states. It has no secrets, and no CIDs: those
// are in the state of each instance.
package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"bootstrap/deployment/dns"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
	"bootstrap/internal/regular"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Format is the format of a Record.
const Format = 1

// Record has the instances of a deployment, including those that are not created or not
// deleted yet.
type Record struct {
	Format   int        `json:"format"`
	Name     string     `json:"name"`
	Deployed *time.Time `json:"deployed,omitempty"` // when a deploy of all instances last succeeded; absent: never
	// Groups are the instance groups of the last deploy, in the order of its manifest, with
	// the rules by which their instances change.
	Groups    []Group     `json:"instance_groups,omitempty"`
	Instances []*Instance `json:"instances"`
	Run       *Run        `json:"run,omitempty"` // nil: the last command about several instances ended well, or is a deploy or delete
	// Former are deleted instances whose states have resources that are kept, such as
	// orphaned disks.
	Former []*Instance `json:"former_instances,omitempty"`
	// Names has the numbers in the DNS names of the deployment; nil: no VM has ever got DNS
	// records.
	Names *dns.Names `json:"names,omitempty"`
	// Serial grows with each write of a record in a store; 0: it is only a file.
	Serial int `json:"serial,omitempty"`
	// Restoring is the version that a restore has begun to restore; 0: none.
	Restoring int `json:"restoring,omitempty"`

	dir   string
	store *team.Copy // the store of the deployment; the file is its copy. nil: it is only a file
}

// KeepIn makes later writes of the record write to a store, too, unless it is nil.
func (r *Record) KeepIn(t *team.Copy) { r.store = t }

// NewState returns how the record names the state of a new instance.
func (r *Record) NewState(in *Instance) string { return NewState(in, r.store) }

// NewState returns how a record in a store, or in a folder if t is nil, names the state of a
// new instance.
func NewState(in *Instance, t *team.Copy) string {
	return t.NewState(fmt.Sprintf("%s-%s", in.Group, in.ID[:min(8, len(in.ID))]))
}

// Instance is one instance.
type Instance struct {
	ID        string `json:"id"` // a UUID, which never changes
	Group     string `json:"group"`
	Index     int    `json:"index"`
	Zone      string `json:"az,omitempty"`
	Bootstrap bool   `json:"bootstrap,omitempty"`
	Ignored   bool   `json:"ignored,omitempty"`
	Disk      bool   `json:"persistent_disk,omitempty"`
	// Going is the reason for which the instance is to be deleted; empty: it stays.
	Going  string `json:"going,omitempty"`
	Errand bool   `json:"errand,omitempty"` // its group has lifecycle errand
	// KeepAlive is set for the instance of a group with lifecycle errand that stays after the
	// errand.
	KeepAlive bool `json:"keep_alive,omitempty"`
	// State is the name of its state file in the folder, or ../NAME for one beside the
	// folder, or an absolute path, or NAME/state.json in a store.
	State string `json:"state"`
	// Installation is the installation id in its state; empty: that is its ID, or an earlier
	// program has written the record.
	Installation string `json:"installation_id,omitempty"`
	// StateSerial is the serial number of its state after the last command of the deployment
	// about it; 0: unknown. The state may be newer.
	StateSerial int `json:"state_serial,omitempty"`
	// Temporary is true for a compilation VM, which is in no record that is saved: each run
	// gives it another ID.
	Temporary bool                    `json:"-"`
	Addresses map[string]netip.Prefix `json:"addresses,omitempty"` // by network
	// PostDeploy is set while the post-deploy scripts of its last change have not
	// succeeded.
	PostDeploy bool `json:"post_deploy_pending,omitempty"`
	// DNSVersion is the version of the DNS records that its VM has got last.
	DNSVersion uint64 `json:"dns_version,omitempty"`
}

// Group is an instance group with the rules of its update block.
type Group struct {
	Name        string `json:"name"`
	Canaries    string `json:"canaries,omitempty"`
	MaxInFlight string `json:"max_in_flight,omitempty"`
	MinHealthy  string `json:"min_healthy,omitempty"`
	OnFailure   string `json:"on_failure,omitempty"`
	Serial      bool   `json:"serial,omitempty"`
}

// Why an instance is deleted by a delete; other reasons are those of a deploy.
const (
	DeploymentDeleted = "deployment deleted"
	Chosen            = "selected" // with --instance
	ErrandEnded       = "errand ended"
)

// Unwanted reports whether the instance is to be deleted because the manifest does not ask for
// it, and not because a person deletes it.
func (in *Instance) Unwanted() bool {
	return in.Going != "" && in.Going != DeploymentDeleted && in.Going != Chosen
}

// Name returns the name of the instance for people: web/0.
func (in *Instance) Name() string { return fmt.Sprintf("%s/%d", in.Group, in.Index) }

// Dir returns the folder for the states of the instances of a manifest: `<manifest
// without extension>-state` beside the manifest.
func Dir(manifest string) string {
	return strings.TrimSuffix(manifest, filepath.Ext(manifest)) + "-state"
}

// above begins the State of an instance whose state file is beside the folder.
const above = "../"

// Beside returns the State of an instance whose state is the file of a manifest with one
// instance, which is beside the folder.
func Beside(path string) string { return above + filepath.Base(path) }

// Beside reports whether the state of the instance is beside the folder.
func (in *Instance) Beside() bool {
	name, ok := strings.CutPrefix(in.State, above)
	return ok && name != "" && name != ".." && filepath.Base(name) == name
}

// Stored reports whether the name of the instance's state is one in a store.
func (in *Instance) Stored() bool { return storedState.MatchString(in.State) }

// LockPath returns the path of the file that a run locks, for the folder of a record.
func LockPath(dir string) string { return filepath.Join(dir, "lock") }

// DirOf returns the folder of the states of a manifest's instances if a state file is named:
// its path without .json. Without a name it is Dir(manifest).
func DirOf(manifest, state string) string {
	if state == "" {
		return Dir(manifest)
	}
	dir, ok := strings.CutSuffix(state, ".json")
	if !ok || filepath.Base(dir) == "." || strings.HasSuffix(dir, string(filepath.Separator)) {
		return state + "-instances"
	}
	return dir
}

// StateOf returns the path of the state file whose DirOf is dir; empty: that is the folder
// of the manifest.
func StateOf(manifest, dir string) string {
	if own, err := filepath.Abs(Dir(manifest)); err == nil {
		if abs, err := filepath.Abs(dir); err == nil && abs == own {
			return ""
		}
	}
	if state, ok := strings.CutSuffix(dir, "-instances"); ok {
		return state
	}
	return dir + ".json"
}

// FileName is the name of the record in the folder.
const FileName = "deployment.json"

// StemcellLock is the name of a lock file in the folder: only the instance that has the
// lock uploads or deletes a stemcell.
const StemcellLock = "stemcells.lock"

// LogsIn returns the folder for the output of the last run.
func LogsIn(dir string) string { return filepath.Join(dir, "logs") }

// Exists reports whether a folder has a record.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, FileName))
	return err == nil
}

// maxSize limits the size of a record.
const maxSize = 64 << 20

// Load reads the record in a folder. Without one, it returns a new record without
// instances, unless the folder has states: their VMs would be forgotten. If a restore was
// interrupted, it returns the record with a *RestoringError.
func Load(dir string) (*Record, error) {
	path := filepath.Join(dir, FileName)
	r := &Record{Format: Format, dir: dir}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, lost(dir)
	case err != nil:
	case !info.Mode().IsRegular(): // Opening a pipe would wait for its writer.
		err = errors.New("it is not a regular file")
	case info.Size() > maxSize:
		err = fmt.Errorf("it is larger than %d MiB", maxSize>>20)
	}
	var data []byte
	if err == nil {
		data, err = regular.Read(path)
	}
	if to, moved := state.WhereTo(data); moved {
		return nil, fmt.Errorf("cannot use the record of the deployment, %s: %w", path, &state.MovedError{To: to})
	}
	if err == nil {
		r.Format = 0
		err = json.Unmarshal(data, r)
	}
	if err == nil && r.Format == 0 { // Such as null, which would have no instances.
		err = errors.New("it is damaged: it has no format")
	}
	if err == nil && r.Format != Format {
		return nil, fmt.Errorf("the record of the deployment, %s, has the format %d, and this bootstrap reads format %d: use the version that wrote it", path, r.Format, Format)
	}
	if err == nil {
		err = r.check()
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("cannot read the record of the deployment, %s: %w; run the same command as its owner, or make the file readable", path, err)
	}
	if err != nil {
		return nil, unusable("cannot read the record of the deployment, %s: %w; %s", path, err, restore(dir))
	}
	if r.Restoring > 0 {
		return r, &RestoringError{Dir: dir, Serial: r.Restoring}
	}
	if !r.Needed() {
		return r, forgotten(dir)
	}
	return r, nil
}

// restore returns what to do without a usable record.
func restore(dir string) string {
	if len(Versions(VersionsIn(dir))) > 0 {
		return "restore a version that `bootstrap state backups MANIFEST` lists: `bootstrap state restore MANIFEST VERSION`"
	}
	return restoreByHand
}

// restoreByHand is what to do if no version of the record was kept.
const restoreByHand = "put a copy of it back, or delete the VM of each state file in its folder with `bootstrap delete --state FILE`, and then the folder"

// storedState is how a store names the states of instances.
var storedState = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/state\.json$`)

// LostError says that the record is missing, but that states or versions of it exist.
type LostError struct{ Path, But string }

func (e *LostError) Error() string {
	return fmt.Sprintf("the record of the deployment, %s, is missing, but %s", e.Path, e.But)
}

func (e *LostError) Name() string { return "record-lost" }

func (e *LostError) ExitCode() failure.Code { return failure.NoState }

func unusable(format string, args ...any) error {
	return failure.Named("record-lost", fmt.Errorf(format, args...))
}

// stateFile is how NewState names the states in the folder.
var stateFile = regexp.MustCompile(`-[0-9a-f]{8}\.json$`)

// lost returns an error if there is no record, but its folder has states, or versions of it
// were kept.
func lost(dir string) error {
	if slices.ContainsFunc(Versions(VersionsIn(dir)), func(v *Version) bool { return len(v.Only) == 0 }) {
		return &LostError{filepath.Join(dir, FileName), fmt.Sprintf("versions of it are kept in %s: %s; if its VMs were deleted in another way, delete that folder", VersionsIn(dir), restore(dir))}
	}
	name, err := stateIn(dir)
	if err != nil || name == "" {
		return err
	}
	return &LostError{filepath.Join(dir, FileName), fmt.Sprintf("its folder has states of instances, such as %s: %s", name, restore(dir))}
}

// check refuses a record if two instances have the same name, id or state, if one lacks an
// id, group or state, if an id or group is no name of a file, or if a state is outside of the
// folder.
func (r *Record) check() error {
	seen, states := map[string]bool{}, map[string]bool{}
	for _, in := range r.Instances {
		if err := in.check(); err != nil {
			return err
		}
		if seen[in.ID] || seen[in.Name()] {
			return fmt.Errorf("it is damaged: %s is in it twice", in.Name())
		}
		path, err := filepath.Abs(r.StatePath(in)) // An absolute path may be that of another instance, too.
		if err != nil {
			return err
		}
		if states[path] {
			return fmt.Errorf("it is damaged: %s has the state %q of another instance", in.Name(), in.State)
		}
		seen[in.ID], seen[in.Name()], states[path] = true, true, true
	}
	return r.checkFormer(seen)
}

// check refuses an instance without an id, group or state, or with one that is not valid.
func (in *Instance) check() error {
	switch {
	case in == nil || in.ID == "" || in.Group == "" || in.State == "":
		return errors.New("it is damaged: an instance has no id, group or state")
	case filepath.Base(in.ID) != in.ID || filepath.Base(in.Group) != in.Group: // They are parts of the names of files.
		return fmt.Errorf("it is damaged: the group %q or the id %q of an instance is not a name", in.Group, in.ID)
	case in.Index < 0 || in.Index > math.MaxInt32:
		return fmt.Errorf("it is damaged: the index of an instance of %s is %d", in.Group, in.Index)
	case !filepath.IsAbs(in.State) && !in.Beside() && filepath.Base(in.State) != in.State && !in.Stored():
		return fmt.Errorf("it is damaged: the state %q of %s is not in its folder", in.State, in.Name())
	}
	return nil
}

// Sorted returns the instances by group and index, as the file has them.
func (r *Record) Sorted() []*Instance {
	return slices.SortedStableFunc(slices.Values(r.Instances), func(a, b *Instance) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), a.Index-b.Index)
	})
}

// Save writes the record.
func (r *Record) Save() error {
	r.Instances = r.Sorted()
	if r.store != nil {
		now, err := Load(r.dir)
		if _, restoring := errors.AsType[*RestoringError](err); restoring {
			err = nil
		}
		switch {
		case err != nil && r.Serial > 0: // It was moved away, or is damaged.
			return err
		case err == nil && now.Serial != r.Serial:
			return errors.New("another run has changed the record of the deployment since this command has read it, and nothing was changed: run the same command again")
		}
		r.Serial++
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = atomicfile.MkdirAll(r.dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(r.dir, FileName), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the record of the deployment: %w", err)
	}
	return file.PushRecord(context.Background(), r.store) // each request has a deadline
}

// Move replaces the record with a note that names its new place.
func (r *Record) Move(to string) error {
	if err := atomicfile.Write(filepath.Join(r.dir, FileName), state.Moved(to)); err != nil {
		return fmt.Errorf("the record of the deployment is in %s now, but %s cannot be marked as moved: %w; run the same command again", to, r.dir, err)
	}
	return file.PushRecord(context.Background(), r.store) // each request has a deadline
}

// In returns a copy of the record for another folder, with the names that its states have
// there.
func (r *Record) In(dir string, t *team.Copy, name func(*Instance) string) *Record {
	other := *r
	other.dir, other.store, other.Serial = dir, t, 0
	move := func(list []*Instance) []*Instance {
		var moved []*Instance
		for _, in := range list {
			one := *in
			one.State = name(in)
			moved = append(moved, &one)
		}
		return moved
	}
	other.Instances, other.Former = move(r.Instances), move(r.Former)
	return &other
}

// With returns a new record in the same folder, with the name, and without instances.
func (r *Record) With(name string) *Record {
	return &Record{
		Format: Format, Name: name, Deployed: r.Deployed, Groups: r.Groups, Former: slices.Clone(r.Former), Names: r.Names,
		Serial: r.Serial, dir: r.dir, store: r.store,
	}
}

// Copy returns a copy whose list of instances does not change with that of r.
func (r *Record) Copy() *Record {
	other := *r
	other.Instances = slices.Clone(r.Instances)
	return &other
}

// Clone returns a copy of the record that shares no instances with it.
func (r *Record) Clone() *Record {
	other := *r
	other.Instances, other.Former = cloned(r.Instances), cloned(r.Former)
	return &other
}

func cloned(list []*Instance) []*Instance {
	copies, all := make([]Instance, len(list)), make([]*Instance, len(list))
	for i, in := range list {
		copies[i] = *in
		all[i] = &copies[i]
	}
	return all
}

// Remove removes an instance that was deleted.
func (r *Record) Remove(id string) {
	r.Instances = slices.DeleteFunc(r.Instances, func(in *Instance) bool { return in.ID == id })
}

// Forget removes the record of a deployment that has no instances any more, and its
// folder if nothing else is in it.
func (r *Record) Forget() error {
	left := []string{LogsIn(r.dir), filepath.Join(r.dir, StemcellLock)}
	if r.store != nil { // first, so that after a kill the next run removes both
		if err := file.RemoveRecord(context.Background(), r.store); err != nil {
			return err
		}
		left = append(left, CopiesIn(r.dir))
		defer func() { _ = r.store.Record().Removed() }() // if it fails, the next run does it again
	}
	err := os.Remove(filepath.Join(r.dir, FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the record of the deployment: %w", err)
	}
	removeVersions(r.dir)
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
	_ = os.Remove(r.dir) // it may have more in it
	return nil
}

// ByID returns the instance with the id.
func (r *Record) ByID(id string) (*Instance, bool) {
	i := slices.IndexFunc(r.Instances, func(in *Instance) bool { return in.ID == id })
	if i < 0 {
		return nil, false
	}
	return r.Instances[i], true
}

// OfState returns the instance with the state at a path; nil: none.
func (r *Record) OfState(path string) *Instance {
	for _, in := range slices.Concat(r.Instances, r.Former) {
		if r.StatePath(in) == path {
			return in
		}
	}
	return nil
}

// StatePath returns the path of the state of an instance.
func (r *Record) StatePath(in *Instance) string {
	if filepath.IsAbs(in.State) {
		return in.State
	}
	return filepath.Join(r.dir, in.State)
}

// Dir returns the folder of the record.
func (r *Record) Dir() string { return r.dir }
