// Package cpitest is the conformance suite for CPIs: a Suite calls every method
// of a CPI, and Transcripts contains recorded answers of real CPIs.
package cpitest

import (
	"context"
	"slices"
	"testing"
	"time"

	"bootstrap/cpi"
)

// Suite checks that a CPI follows the protocol. It creates stemcells, VMs, disks
// and snapshots, and deletes all of them.
type Suite struct {
	// Client returns a new client for a stemcell of this API version each time, as in a
	// new run of the program.
	Client func(t *testing.T) *cpi.Client `json:"-"`

	Image              string                    `json:"image"`
	StemcellProperties map[string]any            `json:"stemcell_properties"`
	VMProperties       map[string]any            `json:"vm_properties"`
	Networks           map[string]map[string]any `json:"networks"`
	Env                map[string]any            `json:"env"`
	DiskProperties     map[string]any            `json:"disk_properties"`
	DiskSize           int                       `json:"disk_size"` // MiB

	// CIDs, in this CPI's format, of things that do not exist.
	MissingStemcell string `json:"missing_stemcell"`
	MissingVM       string `json:"missing_vm"`
	MissingDisk     string `json:"missing_disk"`

	// Strict requires the error types that the documentation describes. Most
	// CPIs succeed when they delete something missing, and report some missing
	// things as CloudError.
	Strict bool `json:"strict"`
}

// callTime limits one call.
const callTime = 10 * time.Minute

// Run runs the whole suite.
func (s Suite) Run(t *testing.T) {
	t.Run("info", s.info)
	t.Run("missing", s.missing)
	t.Run("calculate", s.calculate)
	t.Run("disk", s.disk)
	ctx, c := s.start(t)
	stemcell, err := c.CreateStemcell(ctx, s.Image, s.StemcellProperties, map[string]string{"of": "suite"})
	if err != nil {
		t.Fatalf("create_stemcell: %v", err)
	}
	t.Run("vm", func(t *testing.T) { s.vm(t, stemcell) })
	t.Run("attach", func(t *testing.T) { s.attach(t, stemcell) })
	t.Run("snapshot", s.snapshot)
	if err := c.DeleteStemcell(ctx, stemcell); err != nil {
		t.Errorf("delete_stemcell: %v", err)
	}
	s.gone(t, "delete_stemcell twice", cpi.TypeStemcellNotFound, c.DeleteStemcell(ctx, stemcell))
	if _, err := s.createVM(ctx, c, stemcell, "0d9dd4ff-74b9-4e2c-8b7d-33dd1d1a7b8e"); err == nil {
		t.Error("create_vm of a deleted stemcell succeeds")
	}
}

func (s Suite) start(t *testing.T) (context.Context, *cpi.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), callTime)
	t.Cleanup(cancel)
	return ctx, s.Client(t)
}

func (s Suite) createVM(ctx context.Context, c *cpi.Client, stemcell, agent string, disks ...string) (cpi.VMResult, error) {
	return c.CreateVM(ctx, cpi.VMRequest{
		AgentID: agent, StemcellCID: stemcell, CloudProperties: s.VMProperties,
		Networks: s.Networks, DiskCIDs: disks, Env: s.Env,
	})
}

// gone checks the error of a call about something that does not exist.
func (s Suite) gone(t *testing.T, what, kind string, err error) {
	t.Helper()
	refused, isError := err.(*cpi.Error)
	switch {
	case err == nil:
		if s.Strict {
			t.Errorf("%s: succeeds, want %s", what, kind)
		}
	case !isError:
		t.Errorf("%s: %v", what, err)
	case refused.Type == kind:
	case s.Strict || refused.Type != cpi.TypeCloudError:
		t.Errorf("%s: %v, want %s", what, err, kind)
	}
}

// optional reports whether an optional method was implemented and succeeded.
func optional(t *testing.T, what string, err error) bool {
	t.Helper()
	if cpi.NotImplemented(err) || cpi.NotSupported(err) {
		return false
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

func (s Suite) info(t *testing.T) {
	ctx, c := s.start(t)
	info, err := c.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(info.StemcellFormats) == 0 && info.APIVersion > 1 {
		t.Errorf("it takes no stemcell: %+v", info)
	}
}

func (s Suite) missing(t *testing.T) {
	ctx, c := s.start(t)
	if found, err := c.HasVM(ctx, s.MissingVM); found || err != nil {
		t.Errorf("has_vm: %v, %v", found, err)
	}
	if found, err := c.HasDisk(ctx, s.MissingDisk); found || err != nil && !cpi.NotImplemented(err) {
		t.Errorf("has_disk: %v, %v", found, err)
	}
	tags := map[string]string{"a": "b"}
	s.gone(t, "delete_stemcell", cpi.TypeStemcellNotFound, c.DeleteStemcell(ctx, s.MissingStemcell))
	s.gone(t, "delete_vm", cpi.TypeVMNotFound, c.DeleteVM(ctx, s.MissingVM))
	s.gone(t, "delete_disk", cpi.TypeDiskNotFound, c.DeleteDisk(ctx, s.MissingDisk))
	s.gone(t, "detach_disk", cpi.TypeVMNotFound, c.DetachDisk(ctx, s.MissingVM, s.MissingDisk))
	_, err := c.AttachDisk(ctx, s.MissingVM, s.MissingDisk)
	s.gone(t, "attach_disk", cpi.TypeVMNotFound, err)
	_, err = s.createVM(ctx, c, s.MissingStemcell, "a2dbdbb2-6b5c-4b8e-a5b1-6bd8b4a8e2c8")
	if s.gone(t, "create_vm", cpi.TypeStemcellNotFound, err); err == nil {
		t.Error("create_vm of a missing stemcell succeeds")
	}
	for what, err := range map[string]error{
		"reboot_vm":          c.RebootVM(ctx, s.MissingVM),
		"set_vm_metadata":    c.SetVMMetadata(ctx, s.MissingVM, tags),
		"get_disks":          second(c.GetDisks(ctx, s.MissingVM)),
		"configure_networks": call(ctx, c, "configure_networks", s.MissingVM, s.Networks),
	} {
		if !cpi.NotImplemented(err) && !cpi.NotSupported(err) {
			s.gone(t, what, cpi.TypeVMNotFound, err)
		}
	}
	for what, err := range map[string]error{
		"set_disk_metadata": c.SetDiskMetadata(ctx, s.MissingDisk, tags),
		"resize_disk":       c.ResizeDisk(ctx, s.MissingDisk, s.DiskSize),
		"update_disk":       second(c.UpdateDisk(ctx, s.MissingDisk, s.DiskSize, s.DiskProperties)),
	} {
		if !cpi.NotImplemented(err) && !cpi.NotSupported(err) {
			s.gone(t, what, cpi.TypeDiskNotFound, err)
		}
	}
}

// call calls a method that the program itself does not use.
func call(ctx context.Context, c *cpi.Client, method string, args ...any) error {
	_, err := c.Call(ctx, method, args...)
	return err
}

func second(_ any, err error) error { return err }

func (s Suite) calculate(t *testing.T) {
	ctx, c := s.start(t)
	err := call(ctx, c, "calculate_vm_cloud_properties", map[string]any{"cpu": 1, "ram": 1024, "ephemeral_disk_size": 2048})
	optional(t, "calculate_vm_cloud_properties", err)
}

func (s Suite) createDisk(t *testing.T, ctx context.Context, c *cpi.Client) string {
	t.Helper()
	disk, err := c.CreateDisk(ctx, s.DiskSize, s.DiskProperties, "")
	if err != nil {
		t.Fatalf("create_disk: %v", err)
	}
	t.Cleanup(func() { _ = s.Client(t).DeleteDisk(context.WithoutCancel(ctx), disk) })
	return disk
}

func (s Suite) hasDisk(t *testing.T, ctx context.Context, disk string, want bool) {
	t.Helper()
	found, err := s.Client(t).HasDisk(ctx, disk)
	if !cpi.NotImplemented(err) && (err != nil || found != want) {
		t.Errorf("has_disk: %v, %v; want %v", found, err, want)
	}
}

func (s Suite) disk(t *testing.T) {
	ctx, c := s.start(t)
	disk, other := s.createDisk(t, ctx, c), s.createDisk(t, ctx, c)
	if disk == other {
		t.Fatalf("two disks have the CID %s", disk)
	}
	s.hasDisk(t, ctx, disk, true)
	optional(t, "set_disk_metadata", c.SetDiskMetadata(ctx, disk, map[string]string{"deployment": "suite"}))
	if optional(t, "resize_disk", c.ResizeDisk(ctx, disk, 2*s.DiskSize)) && s.Strict {
		if err := c.ResizeDisk(ctx, disk, s.DiskSize); !cpi.NotSupported(err) {
			t.Errorf("resize_disk to less: %v", err)
		}
	}
	if now, err := c.UpdateDisk(ctx, other, 2*s.DiskSize, s.DiskProperties); optional(t, "update_disk", err) {
		s.hasDisk(t, ctx, now, true)
	}
	if err := c.DeleteDisk(ctx, disk); err != nil {
		t.Errorf("delete_disk: %v", err)
	}
	s.hasDisk(t, ctx, disk, false)
	s.gone(t, "delete_disk twice", cpi.TypeDiskNotFound, c.DeleteDisk(ctx, disk))
}

func (s Suite) newVM(t *testing.T, ctx context.Context, c *cpi.Client, stemcell, agent string, disks ...string) string {
	t.Helper()
	vm, err := s.createVM(ctx, c, stemcell, agent, disks...)
	if err != nil {
		t.Fatalf("create_vm: %v", err)
	}
	t.Cleanup(func() { _ = s.Client(t).DeleteVM(context.WithoutCancel(ctx), vm.CID) })
	if info, _ := c.Info(ctx); info.APIVersion >= 2 && vm.Networks != nil {
		for name := range s.Networks {
			if vm.Networks[name] == nil {
				t.Errorf("create_vm returns no network %q: %v", name, vm.Networks)
			}
		}
	}
	return vm.CID
}

func (s Suite) hasVM(t *testing.T, ctx context.Context, vm string, want bool) {
	t.Helper()
	if found, err := s.Client(t).HasVM(ctx, vm); err != nil || found != want {
		t.Errorf("has_vm: %v, %v; want %v", found, err, want)
	}
}

func (s Suite) vm(t *testing.T, stemcell string) {
	ctx, c := s.start(t)
	vm := s.newVM(t, ctx, c, stemcell, "5f0b9b9e-7e0b-4b52-a3c5-27c7a9b0a0e1")
	s.hasVM(t, ctx, vm, true)
	optional(t, "set_vm_metadata", c.SetVMMetadata(ctx, vm, map[string]string{"deployment": "suite", "index": "0"}))
	if disks, err := c.GetDisks(ctx, vm); optional(t, "get_disks", err) && len(disks) > 0 {
		t.Errorf("get_disks of a new VM: %v", disks)
	}
	optional(t, "reboot_vm", c.RebootVM(ctx, vm))
	s.hasVM(t, ctx, vm, true)
	if err := call(ctx, c, "configure_networks", vm, s.Networks); err != nil && !cpi.NotImplemented(err) && !cpi.NotSupported(err) {
		t.Errorf("configure_networks: %v", err)
	}
	if err := c.DeleteVM(ctx, vm); err != nil {
		t.Errorf("delete_vm: %v", err)
	}
	s.hasVM(t, ctx, vm, false)
	s.gone(t, "delete_vm twice", cpi.TypeVMNotFound, c.DeleteVM(ctx, vm))
}

func (s Suite) attach(t *testing.T, stemcell string) {
	ctx, c := s.start(t)
	disk := s.createDisk(t, ctx, c)
	vm := s.newVM(t, ctx, c, stemcell, "9f2e7c7b-9d53-4d5f-8b1e-0c55b9f1b9a2", disk)
	attached := func(want bool) {
		t.Helper()
		disks, err := s.Client(t).GetDisks(ctx, vm)
		if optional(t, "get_disks", err) && s.Strict && slices.Contains(disks, disk) != want {
			t.Errorf("get_disks: %v; want %s in it: %v", disks, disk, want)
		}
	}
	attached(false)
	hint, err := c.AttachDisk(ctx, vm, disk)
	if err != nil {
		t.Fatalf("attach_disk: %v", err)
	}
	if info, _ := c.Info(ctx); info.APIVersion >= 2 && hint == nil {
		t.Error("attach_disk gives no hint")
	}
	attached(true)
	if s.Strict {
		again, err := c.AttachDisk(ctx, vm, disk)
		if err != nil || again != hint {
			t.Errorf("attach_disk again: %v, %v; was %v", again, err, hint)
		}
		if err := c.DeleteDisk(ctx, disk); err == nil {
			t.Error("delete_disk deletes an attached disk")
		}
		_, err = c.AttachDisk(ctx, vm, s.MissingDisk)
		s.gone(t, "attach_disk of a missing disk", cpi.TypeDiskNotFound, err)
	}
	if err := c.DetachDisk(ctx, vm, disk); err != nil {
		t.Errorf("detach_disk: %v", err)
	}
	attached(false)
	if s.Strict {
		if err := c.DetachDisk(ctx, vm, disk); err != nil {
			t.Errorf("detach_disk again: %v", err)
		}
	}
	if _, err := c.AttachDisk(ctx, vm, disk); err != nil {
		t.Fatalf("attach_disk: %v", err)
	}
	if err := c.DeleteVM(ctx, vm); err != nil {
		t.Errorf("delete_vm with a disk: %v", err)
	}
	s.hasDisk(t, ctx, disk, true)
	other := s.newVM(t, ctx, c, stemcell, "1c9c3f1d-6b5d-4a7c-9d3e-6f7a8b9c0d1e")
	if _, err := c.AttachDisk(ctx, other, disk); err != nil {
		t.Errorf("attach_disk to the next VM: %v", err)
	}
	if err := c.DeleteVM(ctx, other); err != nil {
		t.Errorf("delete_vm with a disk: %v", err)
	}
	if err := c.DeleteDisk(ctx, disk); err != nil {
		t.Errorf("delete_disk of a disk whose VM is gone: %v", err)
	}
}

func (s Suite) snapshot(t *testing.T) {
	ctx, c := s.start(t)
	disk := s.createDisk(t, ctx, c)
	snapshot, err := c.SnapshotDisk(ctx, disk, map[string]string{"deployment": "suite"})
	if !s.Strict && err != nil {
		t.Skipf("snapshot_disk: %v", err)
	}
	if err != nil {
		t.Fatalf("snapshot_disk: %v", err)
	}
	if info, err := c.Info(ctx); err == nil && slices.Contains(info.Extensions, cpi.DiskFromSnapshot) {
		restored, err := c.CreateDisk(ctx, s.DiskSize, map[string]any{cpi.SnapshotProperty: snapshot}, "")
		if err == nil {
			err = c.DeleteDisk(ctx, restored)
		}
		if err != nil {
			t.Errorf("create_disk of a snapshot: %v", err)
		}
	}
	if err := c.DeleteSnapshot(ctx, snapshot); err != nil {
		t.Errorf("delete_snapshot: %v", err)
	}
}
