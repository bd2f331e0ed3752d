package namespace

// Users are the users and groups of a VM besides its root: ids of this machine that
// nobody else has, and that the machine's owner assigns to a person (subordinate ids).
// Without them, all files of the VM have one owner.
type Users struct {
	UIDs Range `json:"uids,omitzero"`
	GIDs Range `json:"gids,omitzero"`
}

// Range has Count ids, beginning with First. In the VM they are 1, 2 and so on.
type Range struct {
	First int `json:"first"`
	Count int `json:"count"`
}

// Many reports whether there are users besides root.
func (u Users) Many() bool { return u.UIDs.Count > 0 && u.GIDs.Count > 0 }

// Owners of files in a VM.
const (
	RootID = 0
	VcapID = 1000 // as on a real VM
)
