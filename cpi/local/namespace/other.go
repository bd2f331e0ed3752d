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

// Main returns an error: only Linux has namespaces.
func Main(context.Context, []string) error { return errOther }

// Try returns an error: only Linux has namespaces.
func Try(context.Context, string) error { return errOther }

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
