package instance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/state/file"
)

// LostStateError says that the state of one of several instances is missing, although a
// backup of it records a VM that was not deleted.
type LostStateError struct {
	Instance string
	State    string // path of the state file, or the store
	Serial   int    // of the backup
	Written  time.Time
	Owned    []string // what the backup records, as State.Owned lists it
}

func (e *LostStateError) Error() string {
	return fmt.Sprintf("the deployment state of %s, %s, is missing, but its backup of %s records %s: a deploy would create a second VM beside that one; nothing was changed. `bootstrap state restore MANIFEST --instance %s %d` restores the state; if the VM does not exist any more, the next deploy creates it again",
		e.Instance, e.State, report.Minute(e.Written), strings.Join(e.Owned, ", "), e.Instance, e.Serial)
}

func (e *LostStateError) Name() string { return "record-lost" }

// refuseLost refuses to create the VM of one of several instances if its state was removed,
// but neither by a delete nor by another command that removed the VM from it.
func (l *Look) refuseLost() error {
	if l.rec.From.Of == nil || l.rec.State.Found() {
		return nil
	}
	versions, err := file.Versions(l.rec.StatePath)
	if err != nil {
		return err
	}
	for _, v := range versions {
		if v.Err != nil || v.State.CurrentVMCID == "" || !slices.Contains(v.Only, "VM "+v.State.CurrentVMCID) {
			continue
		}
		return &LostStateError{
			Instance: l.rec.From.Of.Instance.Name(), State: l.rec.From.StateName(l.rec.StatePath),
			Serial: v.Serial, Written: v.Written, Owned: v.State.Owned(),
		}
	}
	return nil
}

// ofInstance returns a flag that names one of several instances, for commands about its
// state; empty: the manifest has one instance.
func (l *Look) ofInstance() string {
	if l.rec.From.Of == nil {
		return ""
	}
	return " --instance " + l.rec.From.Of.Instance.Name()
}
