package state

import (
	"fmt"
	"slices"
)

// Recover records the result of a call whose own run could not write it into the state. A
// result that contradicts the state becomes a leftover, so that it is neither lost nor
// deleted. The note is a sentence for the user; empty if the state has the result
// already.
func (s *State) Recover(in Intent, cid string) (note string) {
	inPlace := cid == in.Disk // the disk was changed and keeps its CID
	left := slices.ContainsFunc(s.Own.Leftovers, func(l Leftover) bool { return l.ID == in.ID })
	if s.Owns(cid) && !inPlace || left {
		_ = s.Settle(in, "") // it only removes the intent, which never fails
		return ""
	}
	if err := s.Settle(in, cid); err != nil {
		in.CID = cid
		s.Own.Leftovers = append(s.Own.Leftovers, Leftover{Intent: in, Why: err.Error()})
		return fmt.Sprintf("An earlier run could not record that %s made %s; it is a leftover: %v", in.Method, cid, err)
	}
	return fmt.Sprintf("An earlier run could not record that %s made %s; it is recorded now", in.Method, cid)
}
