package cpi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// VMRequest is the arguments of create_vm.
type VMRequest struct {
	AgentID         string
	StemcellCID     string
	CloudProperties map[string]any
	Networks        map[string]map[string]any // networks by name
	DiskCIDs        []string                  // disks that will probably be attached to the VM
	Env             map[string]any
}

// VMResult is the result of create_vm.
type VMResult struct {
	CID      string
	Networks map[string]any // API v2, if the CPI returns them
	Notes    []string       // lines about the VM for people; only the embedded CPI has any
}

// CreateStemcell makes a stemcell of an image and returns its CID. With API v3, the cloud
// gets the tags.
func (c *Client) CreateStemcell(ctx context.Context, image string, props map[string]any, tags map[string]string) (string, error) {
	args := []any{image, object(props)}
	if info, err := c.Info(ctx); err == nil && info.APIVersion >= 3 { // Call returns the error
		args = append(args, map[string]any{"tags": texts(tags)})
	}
	result, err := c.Call(ctx, "create_stemcell", args...)
	if err != nil {
		return "", err
	}
	return c.decodeCID("create_stemcell", result)
}

// DeleteStemcell deletes a stemcell.
func (c *Client) DeleteStemcell(ctx context.Context, cid string) error {
	return c.do(ctx, "delete_stemcell", []string{cid})
}

// HasStemcell reports whether a stemcell exists. Most CPIs cannot say that; for these,
// nothing is called and known is false.
func (c *Client) HasStemcell(ctx context.Context, cid string) (there, known bool, err error) {
	info, err := c.Info(ctx)
	if err != nil || !slices.Contains(info.Extensions, HasStemcellMethod) {
		return false, false, err
	}
	there, err = c.ask(ctx, HasStemcellMethod, cid)
	return there, err == nil, err
}

// CreateVM makes and starts a VM. When it returns, the agent of the VM may not answer
// yet.
func (c *Client) CreateVM(ctx context.Context, vm VMRequest) (VMResult, error) {
	if err := given("create_vm", append([]string{vm.AgentID, vm.StemcellCID}, vm.DiskCIDs...)...); err != nil {
		return VMResult{}, err
	}
	networks, disks := vm.Networks, vm.DiskCIDs
	if networks == nil {
		networks = map[string]map[string]any{}
	}
	if disks == nil {
		disks = []string{}
	}
	result, err := c.Call(ctx, "create_vm", vm.AgentID, vm.StemcellCID, object(vm.CloudProperties), networks, disks, object(vm.Env))
	if err != nil {
		return VMResult{}, err
	}
	return c.decodeVM("create_vm", result)
}

// VMProperties returns the cloud_properties of a VM with at least these resources: cpu,
// ram and ephemeral_disk_size, the last two in MiB.
func (c *Client) VMProperties(ctx context.Context, resources map[string]any) (map[string]any, error) {
	const method = "calculate_vm_cloud_properties"
	result, err := c.Call(ctx, method, object(resources))
	if err != nil {
		return nil, err
	}
	var properties map[string]any
	if err := json.Unmarshal(result, &properties); isNull(result) || err != nil {
		return nil, c.wrong(method, "a map of cloud_properties", result)
	}
	return properties, nil
}

// HasVM reports whether a VM exists.
func (c *Client) HasVM(ctx context.Context, cid string) (bool, error) {
	return c.ask(ctx, "has_vm", cid)
}

// DeleteVM deletes a VM and keeps its persistent disks.
func (c *Client) DeleteVM(ctx context.Context, cid string) error {
	return c.do(ctx, "delete_vm", []string{cid})
}

// RebootVM restarts a VM, or starts one that is off.
func (c *Client) RebootVM(ctx context.Context, cid string) error {
	return c.do(ctx, "reboot_vm", []string{cid})
}

// SetVMMetadata tags a VM with its deployment and other names, which the cloud
// shows.
func (c *Client) SetVMMetadata(ctx context.Context, cid string, metadata map[string]string) error {
	return c.do(ctx, "set_vm_metadata", []string{cid}, texts(metadata))
}

// CreateDisk makes a disk of size MiB and returns its CID; vmCID, if not empty,
// is the VM to which it will probably be attached.
func (c *Client) CreateDisk(ctx context.Context, size int, props map[string]any, vmCID string) (string, error) {
	var near any
	if vmCID != "" {
		near = vmCID
	}
	result, err := c.Call(ctx, "create_disk", size, object(props), near)
	if err != nil {
		return "", err
	}
	return c.decodeCID("create_disk", result)
}

// HasDisk reports whether a disk exists.
func (c *Client) HasDisk(ctx context.Context, cid string) (bool, error) {
	return c.ask(ctx, "has_disk", cid)
}

// DeleteDisk deletes a disk with all its data.
func (c *Client) DeleteDisk(ctx context.Context, cid string) error {
	return c.do(ctx, "delete_disk", []string{cid})
}

// AttachDisk attaches a disk to a VM. The hint, a string or a map, is for the
// agent; it is nil with API v1.
func (c *Client) AttachDisk(ctx context.Context, vmCID, diskCID string) (any, error) {
	if err := given("attach_disk", vmCID, diskCID); err != nil {
		return nil, err
	}
	result, err := c.Call(ctx, "attach_disk", vmCID, diskCID)
	if err != nil {
		return nil, err
	}
	if info, err := c.Info(ctx); err != nil || info.APIVersion < 2 {
		return nil, err
	}
	return c.decodeHint("attach_disk", result)
}

// DetachDisk detaches a disk from a VM.
func (c *Client) DetachDisk(ctx context.Context, vmCID, diskCID string) error {
	return c.do(ctx, "detach_disk", []string{vmCID, diskCID})
}

// SetDiskMetadata tags a disk with its deployment and other names, which the
// cloud shows.
func (c *Client) SetDiskMetadata(ctx context.Context, cid string, metadata map[string]string) error {
	return c.do(ctx, "set_disk_metadata", []string{cid}, texts(metadata))
}

// GetDisks returns the CIDs of the persistent disks attached to a VM.
func (c *Client) GetDisks(ctx context.Context, vmCID string) ([]string, error) {
	if err := given("get_disks", vmCID); err != nil {
		return nil, err
	}
	result, err := c.Call(ctx, "get_disks", vmCID)
	if err != nil {
		return nil, err
	}
	return c.decodeCIDs("get_disks", result)
}

// ResizeDisk changes the size of a detached disk to size MiB.
func (c *Client) ResizeDisk(ctx context.Context, cid string, size int) error {
	return c.do(ctx, "resize_disk", []string{cid}, size)
}

// UpdateDisk changes the size in MiB and the cloud_properties of a detached
// disk (API v2). It returns the CID of the disk, which may be a new one.
func (c *Client) UpdateDisk(ctx context.Context, cid string, size int, props map[string]any) (string, error) {
	if err := given("update_disk", cid); err != nil {
		return "", err
	}
	result, err := c.Call(ctx, "update_disk", cid, size, object(props))
	if err != nil {
		return "", err
	}
	now, err := c.decodeNewCID("update_disk", result)
	if err != nil {
		return "", err
	}
	return cmp.Or(now, cid), nil
}

// SnapshotDisk takes a snapshot of a disk and returns the CID of the snapshot.
func (c *Client) SnapshotDisk(ctx context.Context, cid string, metadata map[string]string) (string, error) {
	if err := given("snapshot_disk", cid); err != nil {
		return "", err
	}
	result, err := c.Call(ctx, "snapshot_disk", cid, texts(metadata))
	if err != nil {
		return "", err
	}
	return c.decodeCID("snapshot_disk", result)
}

// DeleteSnapshot deletes a snapshot of a disk.
func (c *Client) DeleteSnapshot(ctx context.Context, cid string) error {
	return c.do(ctx, "delete_snapshot", []string{cid})
}

// do calls a method that returns nothing and whose first arguments are CIDs.
func (c *Client) do(ctx context.Context, method string, cids []string, args ...any) error {
	if err := given(method, cids...); err != nil {
		return err
	}
	var all []any
	for _, cid := range cids {
		all = append(all, cid)
	}
	_, err := c.Call(ctx, method, append(all, args...)...)
	return err
}

// ask calls a method whose result is true or false.
func (c *Client) ask(ctx context.Context, method, cid string) (bool, error) {
	if err := given(method, cid); err != nil {
		return false, err
	}
	result, err := c.Call(ctx, method, cid)
	if err != nil {
		return false, err
	}
	return c.decodeBool(method, result)
}

// given refuses blank CIDs, which some CPIs interpret as "all".
func given(method string, cids ...string) error {
	for i, cid := range cids {
		if strings.TrimSpace(cid) == "" {
			return &StartError{Method: method, Err: fmt.Errorf("CID %d of %d in its arguments is blank", i+1, len(cids))}
		}
	}
	return nil
}

// object and texts turn a nil map into an empty JSON object.
func object(props map[string]any) map[string]any {
	if props == nil {
		return map[string]any{}
	}
	return props
}

func texts(metadata map[string]string) map[string]string {
	if metadata == nil {
		return map[string]string{}
	}
	return metadata
}
