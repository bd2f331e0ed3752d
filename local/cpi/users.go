package cpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/internal/removal"
	"bootstrap/local/namespace"
	"bootstrap/local/volume"
)

// usersProperty is the cloud property that names how many users a VM has.
const usersProperty = "users"

// Values of usersProperty.
const (
	oneUser   = "one"
	manyUsers = "many"
)

var errOneUser = errors.New("only VMs of namespaces have several users")

// usersFile is the file in the root folder with the ids of the users of all VMs. It is
// written once, because files with these owners may be anywhere below.
const usersFile = "users.json"

// The owners of the files on a disk.
const (
	ownersOne   = ""      // the person
	ownersMany  = "many"  // the users of VMs
	ownersMixed = "mixed" // a call that changes the owners has not finished
)

// users returns the ids of the users of VMs; none if no VM has had several users so far.
func (r *root) users() (namespace.Users, error) {
	var u namespace.Users
	err := readJSON(filepath.Join(r.dir, usersFile), &u)
	if errors.Is(err, fs.ErrNotExist) {
		return namespace.Users{}, nil
	}
	return u, err
}

// newUsers chooses and records the ids for the users of all VMs.
func (r *root) newUsers() (namespace.Users, error) {
	found, err := namespace.FindUsers()
	if err != nil {
		return found, err
	}
	there, err := r.users()
	switch {
	case err != nil:
		return there, err
	case !there.Many():
		return found, writeJSON(filepath.Join(r.dir, usersFile), found)
	case there != found:
		return namespace.Users{}, errors.New("your subordinate ids have changed since the first VM was made; to use the new ones, delete all VMs, disks and stemcells")
	}
	return found, nil
}

// ManyUsers returns an error if VMs of namespaces cannot have several users here.
func ManyUsers() error {
	_, err := namespace.FindUsers()
	return err
}

// usersOf reports whether the cloud_properties of a new VM ask for several users.
func (c *call) usersOf(machine string, properties map[string]any) (bool, error) {
	if properties[usersProperty] != manyUsers {
		return false, nil
	}
	err := errOneUser
	if machine == agent.MachineNamespace {
		_, err = c.root.newUsers()
	}
	if err != nil {
		return false, fail(cpi.TypeCloudError, "cannot use 'users: many' in the VM's cloud_properties: %v", err)
	}
	return true, nil
}

// removeTree removes a folder that may contain files of users of VMs.
func (r *root) removeTree(ctx context.Context, dir string) error {
	err := unmountBelow(dir)
	if err == nil {
		err = removal.Tree(dir)
	}
	if err == nil {
		return nil
	}
	users, unknown := r.users()
	if unknown != nil || !users.Many() {
		return errors.Join(err, unknown)
	}
	return users.Remove(ctx, r.self, dir)
}

// exchange exchanges the names of two folders or links, one of which may belong to a
// user of VMs.
func (r *root) exchange(ctx context.Context, a, b string) error {
	err := namespace.Exchange(a, b)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	users, unknown := r.users()
	if unknown != nil || !users.Many() {
		return errors.Join(err, unknown)
	}
	return users.Exchange(ctx, r.self, a, b)
}

// giveDisk gives the files on an unused disk to the users of a VM: to its only user or,
// if there are several, to vcap, because root can use vcap's files as well.
func (c *call) giveDisk(ctx context.Context, d *disk, many bool) error {
	data := filepath.Join(c.root.path(disks(), d.CID), "data")
	if !isFolder(data) || many == (d.Owners == ownersMany) && d.Owners != ownersMixed {
		return nil // It is in the VM already, or its users own the files already.
	}
	users, err := c.root.users()
	if err != nil {
		return err
	}
	save := func(owners string) error {
		d.Owners = owners
		return c.root.save(disks(), d.CID, *d)
	}
	if !many {
		if err := users.Give(ctx, c.self, data, namespace.RootID); err != nil {
			return err
		}
		return save(ownersOne)
	}
	if entries, err := os.ReadDir(data); err == nil && len(entries) == 0 {
		return save(ownersMany)
	}
	if err := save(ownersMixed); err != nil {
		return err
	}
	if err := users.Give(ctx, c.self, data, namespace.VcapID); err != nil {
		return err
	}
	return save(ownersMany)
}

// copyDisk copies the data of a disk to a new folder.
func (c *call) copyDisk(ctx context.Context, d disk, to string) error {
	if c.root.isImage(d.CID) {
		return withCause(volume.Copy(ctx, c.root.imageOf(d.CID), to))
	}
	// If it is a link, it would lead to files of the machine.
	if data := c.dataDir(d); !isFolder(data) {
		return fmt.Errorf("%s is not a folder: a job has removed or replaced the disk's data", data)
	}
	return c.copyData(ctx, d.Owners, c.dataDir(d), to)
}

// copyData copies a folder with files of these owners.
func (c *call) copyData(ctx context.Context, owners, from, to string) error {
	if owners == ownersOne {
		return copyTree(ctx, from, to)
	}
	users, err := c.root.users()
	if err != nil {
		return err
	}
	return users.Copy(ctx, c.self, from, to)
}
