package state

import "slices"

// RestoreOwn adds own to a state that lacks it. own was saved when cids were the
// current CIDs. If they still are, same is true; otherwise another tool has changed the
// VM, and RestoreOwn leaves out everything in own about the VM. After an error the
// state is unchanged, because own is damaged.
func (s *State) RestoreOwn(own Own, cids CIDs) (same bool, err error) {
	next := *s
	if same = s.Current() == cids; same {
		next.Own = own
	} else {
		next.Own = Own{
			Serial: own.Serial, Salt: own.Salt, DNSVersion: own.DNSVersion,
			Swap: own.Swap, NamedDisks: own.NamedDisks, Orphans: own.Orphans, Snapshots: own.Snapshots,
			Leftovers: own.Leftovers, Intents: own.Intents,
			unknown: own.unknown,
		}
	}
	next.Own.Format, next.Own.ManifestSHA1 = Format, s.Own.ManifestSHA1
	next.fitOwn()
	// The caller checks the other parts of the state.
	if err := next.problems(); err != nil && s.problems() == nil {
		return false, err
	}
	*s = next
	return same, nil
}

// fitOwn removes records from the own part that contradict the other parts of the state.
func (s *State) fitOwn() {
	if s.Own.Swap != nil && s.Own.Swap.CID == s.CurrentVMCID {
		s.Own.Swap = nil
	}
	s.unname(func(id string) bool { return !s.hasDisk(id) || id == s.CurrentDiskID })
	orphans := slices.Clone(s.Own.Orphans)
	s.Own.Orphans = slices.DeleteFunc(orphans, func(o Orphan) bool {
		return slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.CID == o.CID })
	})
}

// problems returns the defects that Repair cannot correct.
func (s *State) problems() error {
	c, err := s.clone()
	if err != nil {
		return err
	}
	c.Repair()
	return c.Check()
}
