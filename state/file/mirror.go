package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/state"
)

// mirror contains the keys that create-env removes from a state file when it saves it,
// and the CIDs that show whether the file still describes the same VM. It is the file
// state.json, 0600, in the folder of the installation.
type mirror struct {
	State    string    `json:"state"` // path of the state file
	VM       string    `json:"vm_cid"`
	Disk     string    `json:"disk_cid"`
	Stemcell string    `json:"stemcell_cid"`
	Own      state.Own `json:"bootstrap"`

	// Made and Size are the VM's stemcell and the size of its disk. They are used if
	// the VM is imported because the state file was lost.
	Made state.Stemcell `json:"stemcell"`
	Size int            `json:"disk_size,omitempty"` // MiB
}

func (m *mirror) cids() state.CIDs {
	return state.CIDs{VM: m.VM, Disk: m.Disk, Stemcell: m.Stemcell}
}

func mirrorOf(home, installation string) string {
	return filepath.Join(home, installation, "state.json")
}

// mirrorPath returns the path of the mirror; empty if there is none.
func (s *Store) mirrorPath() string {
	if s.opts.Home == "" || s.current.InstallationID == "" {
		return ""
	}
	return mirrorOf(s.opts.Home, s.current.InstallationID)
}

func (s *Store) writeMirror() error {
	path := s.mirrorPath()
	if path == "" {
		return nil
	}
	cids := s.current.Current()
	m := mirror{State: s.path, VM: cids.VM, Disk: cids.Disk, Stemcell: cids.Stemcell, Own: s.current.Own}
	if made := s.current.Stemcell(); made != nil {
		m.Made = *made
	}
	if d := s.current.Disk(); d != nil {
		m.Size = d.Size
	}
	data, err := json.MarshalIndent(m, "", "    ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicfile.Replace(path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot mirror the deployment state: %w", err)
	}
	return nil
}

// compareMirror restores the program's own part from the mirror if the file lacks it.
// If the file contains it, compareMirror warns if the file is older than the mirror.
func (l *loaded) compareMirror(path, home string, own bool) {
	file := mirrorOf(home, l.current.InstallationID)
	data, err := regular.Read(file)
	if err != nil {
		return
	}
	var m mirror
	if err := json.Unmarshal(data, &m); err != nil {
		if !own { // otherwise the mirror is not needed
			l.warnOfMirror(file, err)
		}
		return
	}
	switch {
	case m.Own.Format > state.Format:
	case !own:
		l.restoreOwn(file, &m)
	case m.State == path && l.current.Own.Serial < m.Own.Serial:
		l.warnings = append(l.warnings, fmt.Errorf("the deployment state %s is older (serial number %d) than the last one written on this machine (%d): it lacks what was made in between; `bootstrap state backups MANIFEST` lists what is kept", path, l.current.Own.Serial, m.Own.Serial))
	}
}

func (l *loaded) restoreOwn(file string, m *mirror) {
	switch same, err := l.current.RestoreOwn(m.Own, m.cids()); {
	case err != nil:
		l.warnOfMirror(file, err)
	case same:
		l.note("The part of the deployment state that create-env drops was taken from %s", file)
	default:
		l.note("The deployment state was changed by another tool: what its VM was made from is unknown")
	}
}

func (l *loaded) warnOfMirror(file string, err error) {
	l.warnings = append(l.warnings, fmt.Errorf("cannot use %s (%w): another tool has written the deployment state since, so records that only that file contains are lost, such as orphaned disks and leftovers of interrupted runs; look for these in the cloud", file, err))
}

// Remembered returns this machine's record of a VM whose state was at path or, if
// agentID is not empty, of the VM with that agent id. ok is false if there is none.
func Remembered(home, path, agentID string) (vm state.Import, ok bool) {
	path, err := Resolve(path)
	if err != nil || home == "" {
		return state.Import{}, false
	}
	mirrors, err := filepath.Glob(filepath.Join(home, "*", "state.json"))
	if err != nil { // the name of home may contain brackets
		return state.Import{}, false
	}
	for _, file := range mirrors {
		var m mirror
		data, err := readWhole(file)
		if err != nil || json.Unmarshal(data, &m) != nil || m.State != path || m.VM == "" {
			continue
		}
		if agentID == "" || m.Own.AgentID == agentID {
			m.Made.CID = m.Stemcell
			return state.Import{VM: m.VM, AgentID: m.Own.AgentID, Disk: m.Disk, DiskSize: m.Size, Stemcell: m.Made}, true
		}
	}
	return state.Import{}, false
}
