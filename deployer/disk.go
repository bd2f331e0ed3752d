package deployer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"bootstrap/cpi"
	"bootstrap/manifest"
	"bootstrap/state"
)

// provideDisk gives the new VM the disk the manifest asks for: the one there
// is, a new one, or a new one with the content of the one there is. The old
// one is deleted as unused when the deploy has succeeded, not before.
func (r *run) provideDisk(ctx context.Context) error {
	want := r.manifest.Group.Disk
	st := r.state.Get()
	have := st.Disk()
	if want == nil {
		if have != nil {
			r.root.warning(fmt.Sprintf("the manifest asks for no persistent disk any more: disk %s is kept, not attached, and stays recorded", have.CID))
		}
		return nil
	}
	if have == nil {
		d, err := r.createDisk(ctx, want)
		if err != nil {
			return err
		}
		if err := r.attachDisk(ctx, d); err != nil {
			return err
		}
		return r.makeCurrent(d)
	}
	if err := r.attachDisk(ctx, *have); err != nil {
		return err
	}
	if have.Size == want.Size && sameProperties(have.CloudProperties, want.CloudProperties) {
		return nil
	}
	return r.migrateDisk(ctx, *have, want)
}

func (r *run) migrateDisk(ctx context.Context, old state.Disk, want *manifest.DiskPool) error {
	d, err := r.createDisk(ctx, want)
	if err != nil {
		return err
	}
	if err := r.attachDisk(ctx, d); err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Migrating disk content from '%s' to '%s'", old.CID, d.CID), func(*stage) error { return r.agent.MigrateDisk(ctx) })
	if err != nil {
		return err
	}
	if err := r.makeCurrent(d); err != nil {
		return err
	}
	vm := r.state.Get().CurrentVMCID
	return r.do(fmt.Sprintf("Detaching disk '%s'", old.CID), func(*stage) error {
		if err := script(r.agent.RemovePersistentDisk(ctx, old.CID)); err != nil {
			if _, old := err.(skip); !old {
				return err
			}
		}
		if err := r.cpi.DetachDisk(ctx, vm, old.CID); err != nil {
			return err
		}
		return r.agent.WaitReady(ctx, r.opts.AgentTimeout, nil) // some CPIs restart the VM
	})
}

func (r *run) createDisk(ctx context.Context, want *manifest.DiskPool) (state.Disk, error) {
	var d state.Disk
	err := r.do("Creating disk", func(*stage) error {
		props := nonNil(want.CloudProperties)
		cid, err := r.create(state.Intent{Method: "create_disk", Size: want.Size, CloudProperties: props}, func(c *cpi.Client) (string, error) {
			return c.CreateDisk(ctx, want.Size, props, r.state.Get().CurrentVMCID)
		})
		for _, made := range r.state.Get().Disks {
			if err == nil && made.CID == cid {
				d = made
			}
		}
		return err
	})
	return d, err
}

func (r *run) makeCurrent(d state.Disk) error {
	return r.state.Update(func(st *state.State) error {
		st.CurrentDiskID = d.ID
		return nil
	})
}

// attachDisk attaches and mounts a disk; beside a mounted one the agent mounts
// it as the target of a migration.
func (r *run) attachDisk(ctx context.Context, d state.Disk) error {
	vm := r.state.Get().CurrentVMCID
	return r.do(fmt.Sprintf("Attaching disk '%s' to VM '%s'", d.CID, vm), func(*stage) error {
		hint, err := r.cpi.AttachDisk(ctx, vm, d.CID)
		if err != nil {
			return err
		}
		err = r.cpi.SetDiskMetadata(ctx, d.CID, r.diskMetadata())
		if err != nil && !cpi.NotImplemented(err) {
			r.root.warning(fmt.Sprintf("disk %s has no tags: %v", d.CID, err))
		}
		// Some CPIs restart the VM to attach a disk.
		if err := r.agent.WaitReady(ctx, r.opts.AgentTimeout, nil); err != nil {
			return err
		}
		if hint != nil {
			if err := script(r.agent.AddPersistentDisk(ctx, d.CID, hint)); err != nil {
				if _, old := err.(skip); !old {
					return err
				}
			}
		}
		return r.agent.MountDisk(ctx, d.CID)
	})
}

// diskMetadata are the tags of a disk, as create-env sets them.
func (r *run) diskMetadata() map[string]string {
	tags := r.metadata()
	for _, k := range []string{"job", "name", "index", "created_at"} {
		delete(tags, k)
	}
	tags["instance_index"] = "0"
	tags["attached_at"] = time.Now().Format(time.RFC3339)
	maps.Copy(tags, r.manifest.Tags)
	return tags
}

// deleteDisks deletes every disk the state owns, the current one first.
func (r *run) deleteDisks(ctx context.Context) error {
	st := r.state.Get()
	if d := st.Disk(); d != nil {
		if err := r.deleteDisk(ctx, r.stage, "Deleting disk '%s'", *d); err != nil {
			return err
		}
	}
	for _, d := range r.state.Get().Disks {
		if err := r.deleteDisk(ctx, r.stage, "Deleting unused disk '%s'", d); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) deleteDisk(ctx context.Context, in *stage, title string, d state.Disk) error {
	return in.do(fmt.Sprintf(title, d.CID), func(*stage) error {
		in := state.Intent{Method: "delete_disk", CID: d.CID}
		call := func(c *cpi.Client) error { return c.DeleteDisk(ctx, d.CID) }
		return r.destroy(ctx, in, call, "Disk not found", func(st *state.State) {
			st.Disks = without(st.Disks, func(x state.Disk) bool { return x.ID == d.ID })
			if st.CurrentDiskID == d.ID {
				st.CurrentDiskID = ""
			}
		})
	})
}

// sameProperties compares as JSON, which is what the state file keeps: a
// number is the same number whether it came from YAML or from there.
func sameProperties(a, b map[string]any) bool {
	x, errX := json.Marshal(nonNil(a))
	y, errY := json.Marshal(nonNil(b))
	return errX == nil && errY == nil && string(x) == string(y)
}

func nonNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}
