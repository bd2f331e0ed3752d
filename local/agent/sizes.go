package agent

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"bootstrap/agent"
	"bootstrap/local/machine"
)

// countTime limits the measuring of disks. If a disk has so many files that measuring
// takes longer, its file system's use is reported.
const countTime = 3 * time.Second

// fullness is the size and the use of a disk that is a folder.
type fullness struct {
	name  string // system, ephemeral or persistent, as in vitals
	used  uint64 // bytes
	sized uint64 // bytes
}

// fullnesses measures the disks with known sizes.
func (d *disks) fullnesses(ctx context.Context) []fullness {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	sizes := sizesOf(d.vm)
	folders := map[string]string{"ephemeral": d.vm.Path("data")}
	inMiB := map[string]int{"ephemeral": sizes.Ephemeral}
	folders["persistent"], inMiB["persistent"] = d.persistent(sizes.Persistent)
	var all []fullness
	for _, name := range []string{"ephemeral", "persistent"} {
		if inMiB[name] <= 0 {
			continue
		}
		if used, err := onDisk(ctx, folders[name]); err == nil {
			all = append(all, fullness{name, used, uint64(inMiB[name]) << 20})
		}
	}
	return all
}

// sizesOf returns the sizes of the VM's disks that are folders.
func sizesOf(vm machine.VM) agent.BootSizes {
	var sizes agent.BootSizes
	_ = readJSON(filepath.Join(vm.Dir(), agent.BootSizesFile), &sizes) // a VM of an earlier bootstrap has no such file
	return sizes
}

// persistent returns the folder of the mounted persistent disk and its size; 0 if that
// is unknown or there is none.
func (d *disks) persistent(sizes map[string]int) (folder string, size int) {
	list, err := d.settings.disks()
	if err != nil {
		return "", 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for cid, size := range sizes {
		if disk, ok := list[cid]; ok && d.placeOf(disk) == storeName {
			return d.mountedAt(storeName), size
		}
	}
	return "", 0
}

// onDisk returns the number of bytes of the files in a folder. Each file counts once;
// files that disappear are ignored.
func onDisk(ctx context.Context, folder string) (uint64, error) {
	var total uint64
	seen := map[fileID]bool{}
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		if id, several := idOf(info); several {
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		total += allocated(info)
		return nil
	})
	return total, err
}

// addTo replaces the values of the disk's file system in vitals by those of the disk.
func (f fullness) addTo(v *vitals) {
	now := v.Disk[f.name]
	now.Percent = percent(f.used, f.sized)
	v.Disk[f.name] = now
}

// note returns a sentence about a disk with more data than its size; empty: it has less.
func (f fullness) note() string {
	if f.used <= f.sized {
		return ""
	}
	return fmt.Sprintf("the %s disk has %d MiB of data and a size of %d MiB; nothing stops it from growing, because it is a folder of this machine",
		f.name, f.used>>20, f.sized>>20)
}
