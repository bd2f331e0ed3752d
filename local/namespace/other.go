//go:build !linux

package namespace

import (
	"context"
	"errors"
	"os"
)

var errOther = errors.New("only Linux has namespaces")

// Start returns an error: only Linux has namespaces.
func Start(context.Context, Spec, []string, *os.File) (<-chan error, error) { return nil, errOther }

// Attach returns an error: only Linux has namespaces.
func Attach(context.Context, string, Disk) error { return errOther }

// Main returns an error: only Linux has namespaces.
func Main(context.Context, []string) error { return errOther }

// Try returns an error: only Linux has namespaces.
func Try(context.Context, string) error { return errOther }

// FindUsers returns an error: only Linux has namespaces.
func FindUsers() (Users, error) { return Users{}, errOther }

// Remove returns an error: only Linux has namespaces.
func (u Users) Remove(context.Context, string, string) error { return errOther }

// Copy returns an error: only Linux has namespaces.
func (u Users) Copy(context.Context, string, string, string) error { return errOther }

// Give returns an error: only Linux has namespaces.
func (u Users) Give(context.Context, string, string, int) error { return errOther }

// Exchange returns an error: only Linux has namespaces.
func (u Users) Exchange(context.Context, string, string, string) error { return errOther }

// GiveFile does nothing: only Linux has namespaces.
func GiveFile(string) error { return nil }

// Owner returns this user and group.
func Owner() (uid, gid int) { return os.Getuid(), os.Getgid() }

// GiveTree does nothing: only Linux has namespaces.
func GiveTree(string) error { return nil }

// Remedy returns nothing: only Linux has namespaces.
func Remedy() string { return "" }

// Exchange returns an error: only Linux has namespaces.
func Exchange(string, string) error { return errOther }
