package deployment

import (
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/deployment/record"
)

// GoneDisk is a disk that a delete of instances deletes.
type GoneDisk struct {
	Instance string          `json:"instance"` // GROUP/INDEX
	CID      string          `json:"cid"`
	Size     int             `json:"size_mib"`
	Use      observe.DiskUse `json:"use"`
}

// DisksOf returns the disks that a delete of instances, also of former ones, deletes: their
// own ones unless opts.KeepDisk is set, and with opts.OrphanedDisks the orphans.
func DisksOf(all *record.Record, list []*record.Instance, opts deployer.Options) ([]GoneDisk, error) {
	var gone []GoneDisk
	for _, in := range list {
		disks, err := SeenDisks(all, in, opts.Home)
		if err != nil {
			return nil, err
		}
		for _, d := range disks {
			orphan := d.Use == observe.DiskOrphan
			if orphan && opts.OrphanedDisks || !orphan && !opts.KeepDisk {
				gone = append(gone, GoneDisk{Instance: d.Instance, CID: d.CID, Size: d.Size, Use: d.Use})
			}
		}
	}
	return gone, nil
}

// SeenDisks returns the disks in the state of an instance. home is ~/.bosh.
func SeenDisks(all *record.Record, in *record.Instance, home string) ([]observe.SeenDisk, error) {
	st, _, err := all.ReadState(in, home)
	if err != nil {
		return nil, err
	}
	disks := observe.Disks(st)
	for i := range disks {
		disks[i].Instance, disks[i].InstanceID, disks[i].Zone = in.Name(), in.ID, in.Zone
	}
	return disks, nil
}
