package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/internal/atomicfile"
)

// mirror is what create-env drops from a state file when it saves it, and
// what tells whether it still is of the same VM. It stands as state.json,
// 0600, in the folder of the installation.
type mirror struct {
	State    string `json:"state"` // path of the file
	VM       string `json:"vm_cid"`
	Disk     string `json:"disk_cid"`
	Stemcell string `json:"stemcell_cid"`
	Own      Own    `json:"bootstrap"`

	// Made and Size are what an import of the VM wants to know beside.
	Made Stemcell `json:"stemcell"`
	Size int      `json:"disk_size,omitempty"` // MiB
}

func mirrorOf(home, installation string) string {
	return filepath.Join(home, installation, "state.json")
}

// mirrorPath is empty where there is no mirror.
func (f *File) mirrorPath() string {
	if f.opts.Home == "" || f.current.InstallationID == "" {
		return ""
	}
	return mirrorOf(f.opts.Home, f.current.InstallationID)
}

func (f *File) writeMirror() error {
	path := f.mirrorPath()
	if path == "" {
		return nil
	}
	vm, disk, stemcell := f.current.current()
	m := mirror{State: f.path, VM: vm, Disk: disk, Stemcell: stemcell, Own: f.current.Own}
	if made := f.current.Stemcell(); made != nil {
		m.Made = *made
	}
	if d := f.current.Disk(); d != nil {
		m.Size = d.Size
	}
	data, err := json.MarshalIndent(m, "", "    ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot mirror the deployment state: %w", err)
	}
	return nil
}

// current returns the CIDs of the VM, the disk and the stemcell.
func (s *State) current() (vm, disk, stemcell string) {
	if d := s.Disk(); d != nil {
		disk = d.CID
	}
	if r := s.Stemcell(); r != nil {
		stemcell = r.CID
	}
	return s.CurrentVMCID, disk, stemcell
}

// reflect takes our own part from the mirror, where the file has none: what
// is about a VM if it is the same, with disk and stemcell, and what create-env
// does not know of in any case.
func (l *loaded) reflect(path, home string, own bool) {
	file := mirrorOf(home, l.current.InstallationID)
	data, err := os.ReadFile(file)
	if err != nil {
		return
	}
	var m mirror
	// A damaged mirror tells nothing; the file does.
	if err := json.Unmarshal(data, &m); err != nil || m.Own.Format > Format {
		if err != nil && !own {
			l.damaged(file, err)
		}
		return
	}
	if own {
		if m.State == path && l.current.Own.Serial < m.Own.Serial {
			l.warnings = append(l.warnings, fmt.Errorf("the deployment state %s is older (serial number %d) than the last one written on this machine (%d): what was made in between is not in it; `bootstrap state backups` lists what is kept", path, l.current.Own.Serial, m.Own.Serial))
		}
		return
	}
	before, notes := l.current, l.notes
	sha1 := l.current.Own.ManifestSHA1
	if vm, disk, stemcell := l.current.current(); vm == m.VM && disk == m.Disk && stemcell == m.Stemcell {
		l.current.Own = m.Own
		l.note("The part of the deployment state that create-env drops was taken from %s", file)
	} else {
		l.current.Own = Own{
			Serial: m.Own.Serial, Salt: m.Own.Salt, DNSVersion: m.Own.DNSVersion,
			unknown: m.Own.unknown,
			Swap:    m.Own.Swap, Orphans: m.Own.Orphans, Snapshots: m.Own.Snapshots, Leftovers: m.Own.Leftovers, Intents: m.Own.Intents,
		}
		l.note("The deployment state was changed by another tool: what its VM was made from is unknown")
	}
	l.current.Own.Format, l.current.Own.ManifestSHA1 = Format, sha1
	l.fit()
	// What is wrong with the mirror must not be told of the file.
	if err := l.current.sound(); err != nil && before.sound() == nil {
		l.current, l.notes = before, notes
		l.damaged(file, err)
	}
}

func (l *loaded) damaged(mirror string, err error) {
	l.warnings = append(l.warnings, fmt.Errorf("%s cannot be used (%w): what was kept there since another tool wrote the deployment state is lost, such as the disks that were kept and what interrupted runs may have left; look for them in the cloud", mirror, err))
}

// sound tells what is wrong with a state beyond what is mended.
func (s *State) sound() error {
	c, err := s.clone()
	if err != nil {
		return err
	}
	c.mend()
	return c.check()
}

// fit drops from our own part what the records of the file tell otherwise.
func (l *loaded) fit() {
	s, own := &l.current, &l.current.Own
	if own.Swap != nil && own.Swap.CID == s.CurrentVMCID {
		own.Swap = nil
	}
	own.Orphans = slices.DeleteFunc(own.Orphans, func(o Orphan) bool {
		return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.CID == o.CID })
	})
}

// Remembered is what this machine keeps of a VM whose state was at path, and
// whether it keeps anything: of the one with that agent id, if it is not empty.
func Remembered(home, path, agentID string) (Import, bool) {
	path, err := resolve(path)
	if err != nil || home == "" {
		return Import{}, false
	}
	mirrors, err := filepath.Glob(filepath.Join(home, "*", "state.json"))
	if err != nil { // it is a home with brackets in its name
		return Import{}, false
	}
	for _, file := range mirrors {
		var m mirror
		data, err := readWhole(file)
		if err != nil || json.Unmarshal(data, &m) != nil || m.State != path || m.VM == "" {
			continue
		}
		if agentID == "" || m.Own.AgentID == agentID {
			m.Made.CID = m.Stemcell
			return Import{VM: m.VM, AgentID: m.Own.AgentID, Disk: m.Disk, DiskSize: m.Size, Stemcell: m.Made}, true
		}
	}
	return Import{}, false
}
