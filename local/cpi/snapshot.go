package cpi

import (
	"context"
	"os"
	"path/filepath"

	"bootstrap/cpi"
	"bootstrap/local/volume"
)

// sourceOf returns the snapshot that the cloud_properties of a new disk name, and removes it
// from them; nil: the disk is empty.
func (c *call) sourceOf(props map[string]any) (*snapshot, error) {
	named, found := props[cpi.SnapshotProperty]
	if !found {
		return nil, nil
	}
	cid, ok := named.(string)
	if !ok {
		return nil, fail(cpi.TypeCloudError, "cannot make a disk from a snapshot: '%s' in the disk's cloud_properties must be a CID", cpi.SnapshotProperty)
	}
	var of snapshot
	if err := c.root.load(snapshots(), cid, &of); err != nil {
		return nil, err
	}
	delete(props, cpi.SnapshotProperty)
	return &of, nil
}

// snapshotOwners returns the owners of the files in a snapshot of a disk.
func (c *call) snapshotOwners(d disk) string {
	if c.root.isImage(d.CID) {
		return ownersOne
	}
	return d.Owners
}

// fill copies the data of a snapshot to a new disk.
func (c *call) fill(ctx context.Context, d *disk, of snapshot) error {
	from := filepath.Join(c.root.path(snapshots(), of.CID), "data")
	if c.root.isImage(d.CID) {
		return withCause(volume.Fill(ctx, from, c.root.imageOf(d.CID)))
	}
	to := filepath.Join(c.root.path(disks(), d.CID), "data")
	if err := os.Remove(to); err != nil {
		return err
	}
	d.Owners = of.Owners
	return c.copyData(ctx, of.Owners, from, to)
}
