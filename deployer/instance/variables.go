package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/manifest/store"
	"bootstrap/state"
	"bootstrap/state/file"
)

// generating refuses to generate new values if a vars store is lost. It returns the
// variables that the VM uses already. If the run generates values, From.Replacing may
// refuse these.
func (t *Instance) generating(ctx context.Context, names []string, exists bool) (replaced []string, err error) {
	st, found, err := t.currentState()
	if err != nil || !found {
		return nil, err
	}
	shown := cmp.Or(t.From.Inputs.StoreName, t.From.Inputs.VarsStore)
	if err := RefuseLostStore(st, t.From.StateName(t.StatePath), shown, exists, t.From.Inputs.SaveStore != nil); err != nil {
		return nil, err
	}
	replaced = UsedAlready(st, names)
	if len(replaced) > 0 && t.From.Inputs.Generate == document.Write && t.From.Replacing != nil {
		return replaced, t.From.Replacing(ctx, replaced)
	}
	return replaced, nil
}

// currentState returns the state of the deployment, which may not be open yet.
func (t *Instance) currentState() (st state.State, found bool, err error) {
	if t.State != nil {
		return t.State.Get(), t.State.Found(), nil
	}
	if t.StatePath == "" { // validate needs no state
		return st, false, nil
	}
	opts := t.stateOptions()
	opts.Warn = func(error) {} // The run opens the state again, and warns then.
	s, err := file.OpenReadOnly(t.StatePath, opts)
	if err != nil {
		return st, false, err
	}
	return s.Get(), s.Found(), nil
}

// RefuseLostStore returns an error if the vars store does not exist although the state
// has a VM or a disk that uses its values.
func RefuseLostStore(st state.State, stateName, shown string, exists, team bool) error {
	what := "VM " + st.CurrentVMCID
	if st.CurrentVMCID == "" {
		disks := st.UsedDisks()
		if len(disks) == 0 {
			return nil
		}
		what = "disk " + disks[0].CID
	}
	if exists {
		return nil
	}
	where, restore, fresh := "the vars store "+shown, "restore it from version control, a backup or a colleague's copy", store.Anew(shown)
	if team {
		where, restore, fresh = shown+" has no vars store", "restore vars.yml.age there, from an earlier version that the bucket keeps or a backup", "bootstrap secrets init --state "+shown
	} else {
		where += " does not exist"
	}
	return &document.FileError{Err: &store.LostError{Text: fmt.Sprintf("%s, but according to %s the deployment has %s, which uses its values: no new values are generated, because it is lost; %s, or name the right one with --vars-store; only if there is no copy, and the VM may get new values of everything, make an empty one: %s", where, stateName, what, restore, fresh)}}
}

// UsedAlready returns the variables among names that the VM uses: all of them if the
// state does not have that list.
func UsedAlready(st state.State, names []string) []string {
	if st.CurrentVMCID == "" && len(st.UsedDisks()) == 0 {
		return nil
	}
	if st.Own.Variables == nil {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(st.Own.Variables, name) })
}

// ReplacesValues returns the lines of the question whether variables get new values.
func ReplacesValues(names []string) []string {
	lines := make([]string, 0, len(names))
	for _, name := range names {
		lines = append(lines, "generate a new value for the variable "+name+", which the VM uses already: its value is not in the vars store, or the options of the variable have changed")
	}
	if len(lines) > 8 {
		lines = []string{fmt.Sprintf("generate new values for %d variables, which the VM uses already: their values are not in the vars store, or the options of the variables have changed: %s", len(names), strings.Join(names, ", "))}
	}
	return lines
}
