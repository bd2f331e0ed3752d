package namespace

// Users are the users and groups that a VM has beside its root: numbers of this
// machine that nobody else has, which the machine's owner gives to a person
// (subordinate ids). Without them all files of the VM have one owner.
type Users struct {
	UIDs Range `json:"uids,omitzero"`
	GIDs Range `json:"gids,omitzero"`
}

// Range is Count numbers from First on. They are 1, 2 and so on in the VM.
type Range struct {
	First int `json:"first"`
	Count int `json:"count"`
}

// Many reports whether there are any.
func (u Users) Many() bool { return u.UIDs.Count > 0 && u.GIDs.Count > 0 }

// Owners of files in a VM.
const (
	RootID = 0
	VcapID = 1000 // as on a real VM
)
