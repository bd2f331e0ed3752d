package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/printable"
	"bootstrap/internal/process"
	"bootstrap/internal/removal"
	"bootstrap/internal/wait"
	"bootstrap/local/machine"
)

// diskSettings describe a persistent disk. The names and the order of the fields are
// those of the real agent, which writes them in replies and files.
type diskSettings struct {
	ID            string
	DeviceID      string
	VolumeID      string
	Lun           string
	HostDeviceID  string
	Path          string
	ISCSISettings struct {
		InitiatorName string
		Username      string
		Target        string
		Password      string
	}
	FileSystemType string
	MountOptions   []string
	Partitioner    string
}

// diskFrom reads a disk from the settings or a hint: a path, or a map with a
// path.
func (s *settings) diskFrom(cid string, info any) diskSettings {
	d := diskSettings{ID: cid}
	switch info := info.(type) {
	case string:
		d.Path, d.VolumeID = info, info
	case map[string]any:
		text := func(key string) string { t, _ := info[key].(string); return t }
		d.Path, d.VolumeID, d.DeviceID = text("path"), text("volume_id"), text("id")
		d.Lun, d.HostDeviceID = text("lun"), text("host_device_id")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.FileSystemType, d.MountOptions, d.Partitioner = s.env.Env.FS, s.env.Env.Options, s.env.Env.Partitioner
	return d
}

// disks returns all persistent disks; hints of add_persistent_disk replace the settings.
func (s *settings) disks() (map[string]diskSettings, error) {
	all := map[string]diskSettings{}
	for cid, info := range s.get().Disks.Persistent {
		all[cid] = s.diskFrom(cid, info)
	}
	if err := readJSON(s.hints, &all); err != nil {
		return nil, failf("Reading persistent disk settings: %w", err)
	}
	return all, nil
}

func (s *settings) disk(cid string) (diskSettings, error) {
	all, err := s.disks()
	if err != nil {
		return diskSettings{}, failf("Getting all persistent disk settings: %w", err)
	}
	d, found := all[cid]
	if !found {
		return d, failf("Persistent disk with volume id '%s' could not be found", cid)
	}
	return d, nil
}

// disks are the persistent and dynamic disks of the VM. A disk is a folder on this
// machine. Mounting it creates a link to the folder, or a mount if the VM has mounts of
// its own.
type disks struct {
	vm       machine.VM
	log      *slog.Logger
	settings *settings

	mu sync.Mutex // guards the mounts
}

// changeHints changes the stored hints of add_persistent_disk.
func (d *disks) changeHints(change func(map[string]diskSettings)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	hints := map[string]diskSettings{}
	if err := readJSON(d.settings.hints, &hints); err != nil {
		return err
	}
	change(hints)
	return writeJSON(d.settings.hints, hints, 0o600)
}

func (d *disks) addPersistent(ctx context.Context, c *call) (any, error) {
	var cid string
	var hint any
	if err := c.bind(2, &cid, &hint); err != nil {
		return nil, err
	}
	if err := d.settings.load(ctx); err != nil {
		return nil, failf("Refreshing the settings: %w", err)
	}
	disk := d.settings.diskFrom(cid, hint)
	if err := d.changeHints(func(all map[string]diskSettings) { all[cid] = disk }); err != nil {
		return nil, failf("Saving persistent disk hints: %w", err)
	}
	return struct{}{}, nil
}

func (d *disks) removePersistent(ctx context.Context, c *call) (any, error) {
	var cid string
	if err := c.bind(1, &cid); err != nil {
		return nil, err
	}
	if err := d.settings.load(ctx); err != nil {
		return nil, failf("Refreshing the settings: %w", err)
	}
	if err := d.changeHints(func(all map[string]diskSettings) { delete(all, cid) }); err != nil {
		return nil, failf("Removing persistent disk settings: %w", err)
	}
	return struct{}{}, nil
}

func (d *disks) mountMessage(ctx context.Context, c *call) (any, error) {
	var cid string
	if err := c.bind(1, &cid); err != nil {
		return nil, err
	}
	if err := d.settings.load(ctx); err != nil {
		return nil, failf("Refreshing the settings: %w", err)
	}
	disk, err := d.settings.disk(cid)
	if err != nil {
		return nil, failf("Reading persistent disk settings: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mount(disk); err != nil {
		return nil, failf("Mounting persistent disk: %w", err)
	}
	return struct{}{}, nil
}

func (d *disks) mount(disk diskSettings) error {
	folder, err := diskFolder(disk)
	if err != nil {
		return err
	}
	place := storeName
	switch d.mountedAt(storeName) {
	case "":
	case folder:
		return nil
	default:
		place = migrationTarget
		if other := d.mountedAt(place); other != "" && other != folder {
			return failf("Mounting partition: Device %s is already mounted to %s, can't mount %s", other, d.vm.Path(place), folder)
		}
	}
	if err := d.mountPlace(place, folder); err != nil {
		return failf("Mounting partition: %w", err)
	}
	if err := atomicfile.WriteMode(d.vm.Path("bosh", "managed_disk_settings.json"), []byte(disk.ID), 0o600); err != nil {
		return failf("Writing managed_disk_settings.json: %w", err)
	}
	return nil
}

// diskFolder returns the folder that replaces the disk's device.
func diskFolder(disk diskSettings) (string, error) {
	folder := disk.Path
	if folder == "" {
		folder = disk.VolumeID
	}
	if folder == "" {
		return "", failf("Getting real device path: path is missing")
	}
	if !filepath.IsAbs(folder) {
		return "", fmt.Errorf("cannot mount disk '%s': %q is no absolute path", disk.ID, folder)
	}
	folder = filepath.Clean(folder)
	info, err := os.Stat(folder)
	if err != nil {
		return "", failf("Getting real device path: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("cannot mount disk '%s': %s is no folder", disk.ID, folder)
	}
	return folder, nil
}

// placeOf returns the mount point of the disk, or "".
func (d *disks) placeOf(disk diskSettings) string {
	for _, place := range []string{storeName, migrationTarget} {
		at := d.mountedAt(place)
		if at != "" && (at == filepath.Clean(disk.Path) || at == filepath.Clean(disk.VolumeID)) {
			return place
		}
	}
	return ""
}

func (d *disks) unmountMessage(ctx context.Context, c *call) (any, error) {
	var cid string
	if err := c.bind(1, &cid); err != nil {
		return nil, err
	}
	disk, err := d.settings.disk(cid)
	if err != nil {
		return nil, failf("Getting persistent disk settings: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for {
		message, err := d.unmount(limited, disk)
		// The kernel counts what no list of open files shows: the memory of a process that
		// ends, or a mount inside the disk.
		if errors.Is(err, syscall.EBUSY) && wait.For(limited, busyPause) == nil {
			continue
		}
		if err != nil {
			return nil, failf("Unmounting persistent disk: %w", err)
		}
		return map[string]string{"message": message}, nil
	}
}

// unmount waits until no process uses the disk and unmounts it. It returns what happened.
func (d *disks) unmount(ctx context.Context, disk diskSettings) (string, error) {
	if place := d.placeOf(disk); place != "" {
		if err := d.awaitUnused(ctx, place); err != nil {
			return "", err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	place := d.placeOf(disk)
	if place == "" {
		return fmt.Sprintf("Partition of %+v is not mounted", disk), nil
	}
	return fmt.Sprintf("Unmounted partition of %+v", disk), d.unmountPlace(place)
}

// busyTimeout is how long an unmount waits for a disk in use, and busyPause how long
// between two looks. After busySaid it reports the reason.
const (
	busyTimeout = 10 * time.Minute
	busyPause   = 100 * time.Millisecond
	busySaid    = 3 * time.Second
)

// awaitUnused waits until the context ends for the processes of the VM that use the disk
// that is mounted at the place: as on a real VM, a job that still writes must keep its disk.
func (d *disks) awaitUnused(ctx context.Context, place string) error {
	folder := d.mountedAt(place)
	if d.vm.Mounts() {
		folder = d.vm.Path(place) // the path in the processes' view
	}
	began := time.Now()
	for logged := false; ; logged = true {
		pids := d.vm.UsersOf(ctx, folder)
		if len(pids) == 0 {
			return nil
		}
		users := usersText(pids, folder)
		if !logged {
			d.log.Warn("the disk is in use", "by", users)
		}
		if time.Since(began) >= busySaid {
			waitsFor(ctx, users)
		}
		if wait.For(ctx, busyPause) == nil {
			continue
		}
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the disk is in use: %s; end it (bootstrap ssh MANIFEST -- kill %d), or have the job end it when it is stopped", users, pids[0])
	}
}

// usersText lists the processes that use a folder, the first ones with a file.
func usersText(pids []int, folder string) string {
	const most = 3
	var all []string
	for _, pid := range pids[:min(len(pids), most)] {
		who := fmt.Sprintf("process %d", pid)
		if name := process.Name(pid); name != "" {
			who += " (" + name + ")"
		}
		all = append(all, fmt.Sprintf("%s uses %s", who, cmp.Or(process.Use(pid, folder), folder)))
	}
	if more := len(pids) - most; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return printable.Text(strings.Join(all, ", "))
}

// list is the message list_disk: the CIDs of the mounted disks.
func (d *disks) list(ctx context.Context, _ *call) (any, error) {
	if err := d.settings.load(ctx); err != nil {
		return nil, failf("Refreshing the settings: %w", err)
	}
	all, err := d.settings.disks()
	if err != nil {
		return nil, failf("Getting persistent disk settings: %w", err)
	}
	mounted := []string{}
	for _, cid := range slices.Sorted(maps.Keys(all)) {
		if d.placeOf(all[cid]) != "" {
			mounted = append(mounted, cid)
		}
	}
	return mounted, nil
}

// migration records that a disk was empty when a migration to it began. After a kill of
// the agent, all its files are from that migration and can be removed.
type migration struct{ From, To string }

func (d *disks) migrateMessage(ctx context.Context, _ *call) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.migrate(ctx); err != nil {
		return nil, failf("Migrating persistent disk: %w", err)
	}
	return struct{}{}, nil
}

func (d *disks) migrate(ctx context.Context) error {
	m := migration{From: d.mountedAt(storeName), To: d.mountedAt(migrationTarget)}
	for _, place := range []string{storeName, migrationTarget} {
		if d.mountedAt(place) == "" {
			return failf("Remounting persistent disk as readonly: Error finding device for mount point %s: <nil cause>", d.vm.Path(place))
		}
	}
	if err := d.awaitUnused(ctx, storeName); err != nil {
		return failf("Remounting persistent disk as readonly: %w", err)
	}
	marker := d.vm.Path("bosh", "migration.json")
	if err := emptyForMigration(marker, m); err != nil {
		return failf("Copying files from old disk to new disk: %w", err)
	}
	if err := copyTree(ctx, m.From, m.To); err != nil {
		return failf("Copying files from old disk to new disk: %w", err)
	}
	if err := compareTrees(ctx, m.From, m.To); err != nil {
		return failf("Copying files from old disk to new disk: the copy differs: %w", err)
	}
	if err := syncFolder(m.To); err != nil {
		return failf("Copying files from old disk to new disk: %w", err)
	}
	if err := d.moveMount(m.To); err != nil {
		return failf("Remounting new disk on original mountpoint: %w", err)
	}
	return removeFiles(marker)
}

// emptyForMigration removes the files that an interrupted run of the same migration
// copied.
func emptyForMigration(marker string, m migration) error {
	var interrupted migration
	if err := readJSON(marker, &interrupted); err != nil {
		return err
	}
	entries, err := os.ReadDir(m.To)
	if err != nil {
		return err
	}
	if interrupted == m {
		for _, e := range entries {
			if err := removal.Tree(filepath.Join(m.To, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	if len(entries) > 0 {
		return removeFiles(marker)
	}
	return writeJSON(marker, m, 0o600)
}

// associate makes a link to a disk below instance/disks, for update_settings.
func (d *disks) associate(name string, disk diskSettings) error {
	if err := checkName("disk association", name, "0"); err != nil {
		return err
	}
	return enable(disk.Path, d.vm.Path("instance", "disks", name), 0o755)
}

// keepOnly removes the links to other disks. The real agent leaves them; here a job could
// change the folder of a disk that is kept as an orphan.
func (d *disks) keepOnly(names map[string]bool) error {
	return removeLinks(d.vm.Path("instance", "disks"), func(name string) bool { return !names[name] })
}

func (d *disks) addDynamic(ctx context.Context, c *call) (any, error) {
	var cid string
	var hint any
	if err := c.bind(2, &cid, &hint); err != nil {
		return nil, err
	}
	if err := d.settings.load(ctx); err != nil {
		return nil, failf("Refreshing the settings: %w", err)
	}
	if err := checkName("disk", cid, "0"); err != nil {
		return nil, err
	}
	disk := d.settings.diskFrom(cid, hint)
	if err := replaceLink(disk.Path, d.vm.Path("data", "dynamic_disks", cid)); err != nil {
		return nil, failf("Setting up dynamic disk: Symlinking dynamic disk real device path: %w", err)
	}
	return struct{}{}, nil
}

func (d *disks) removeDynamic(_ context.Context, c *call) (any, error) {
	var cid string
	if err := c.bind(1, &cid); err != nil {
		return nil, err
	}
	if err := checkName("disk", cid, "0"); err != nil {
		return nil, err
	}
	return struct{}{}, removeFiles(d.vm.Path("data", "dynamic_disks", cid))
}
