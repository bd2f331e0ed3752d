package record

import (
	"fmt"
	"slices"
)

// Retire removes an instance that was deleted, and keeps it among the former instances:
// its state has resources that are kept.
func (r *Record) Retire(id string) {
	in, found := r.ByID(id)
	if !found {
		return
	}
	r.Remove(id)
	former := *in
	former.Bootstrap, former.Ignored, former.Disk, former.PostDeploy, former.Addresses, former.DNSVersion = false, false, false, false, nil, 0
	r.Former = append(r.Former, &former)
}

// Revive makes a former instance an instance again, without a VM: its disk is to be used.
func (r *Record) Revive(id string) *Instance {
	i := slices.IndexFunc(r.Former, func(in *Instance) bool { return in.ID == id })
	in := r.Former[i]
	r.Former = slices.Delete(r.Former, i, i+1)
	in.Going, in.Disk = "", true
	r.Instances = append(r.Instances, in)
	return in
}

// Needed reports whether the record has an instance or a former one.
func (r *Record) Needed() bool { return len(r.Instances)+len(r.Former) > 0 }

// Release removes a former instance whose state is gone.
func (r *Record) Release(id string) {
	r.Former = slices.DeleteFunc(r.Former, func(in *Instance) bool { return in.ID == id })
}

// FindFormer returns the former instance GROUP/ID.
func (r *Record) FindFormer(name string) (*Instance, bool) {
	i := slices.IndexFunc(r.Former, func(in *Instance) bool { return in.Group+"/"+in.ID == name })
	if i < 0 {
		return nil, false
	}
	return r.Former[i], true
}

// checkFormer refuses former instances that are damaged, or whose id is in seen.
func (r *Record) checkFormer(seen map[string]bool) error {
	for _, in := range r.Former {
		if err := in.check(); err != nil {
			return err
		}
		if seen[in.ID] {
			return fmt.Errorf("it is damaged: the instance %s is in it twice", in.ID)
		}
		seen[in.ID] = true
	}
	return nil
}
