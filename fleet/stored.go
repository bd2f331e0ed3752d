package fleet

import (
	"bootstrap/deployment/record"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// IsStored reports whether the state of the member is in the store of a team.
func (m Member) IsStored() bool { return team.IsAddress(m.State) }

// StatePath returns the path of the member's state file, or of this machine's copy of its
// state in a store. home is ~/.bosh.
func (m Member) StatePath(home string) (string, error) {
	if m.IsStored() {
		return team.StateIn(m.copied(home)), nil
	}
	return file.Path(m.Manifest, m.State)
}

// RecordFolder returns the folder of the record of the member's instances, or of this
// machine's copy of it. home is ~/.bosh.
func (m Member) RecordFolder(home string) string {
	if m.IsStored() {
		return team.RecordIn(m.copied(home))
	}
	return record.DirOf(m.Manifest, m.State)
}

func (m Member) copied(home string) string { return team.Folder(home, team.Place(m.State)) }
