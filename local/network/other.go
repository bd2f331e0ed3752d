//go:build !linux

package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
)

var errOther = errors.New("only Linux has VMs with networks of their own")

// Cable is empty: only Linux has VMs with networks of their own.
type Cable struct {
	Dir, Networks, Out string
	Spec               *Spec
	Ports              []Port
	UID, GID           int
}

// Start returns an error: only Linux has VMs with networks of their own.
func (Cable) Start(context.Context, string, []string, []*os.File) error { return errOther }

// Main returns an error: only Linux has VMs with networks of their own.
func Main(context.Context, string) error { return errOther }

// Open returns an error: only Linux has VMs with networks of their own.
func Open(context.Context, []Port) ([]*os.File, error) { return nil, errOther }

// Helper returns an error: only Linux has VMs with networks of their own.
func Helper() (string, error) { return "", errOther }

// Resolver returns nothing: only Linux has VMs with networks of their own.
func Resolver(string, Interface) netip.Addr { return netip.Addr{} }

// Dial returns an error: only Linux has VMs with networks of their own.
func Dial(context.Context, string, string, string) (net.Conn, error) { return nil, errOther }

// IsConnected returns false: only Linux has VMs with networks of their own.
func IsConnected(string) bool { return false }

// Runs returns false: only Linux has VMs with networks of their own.
func Runs(context.Context, string) bool { return false }

// Tidy does nothing: only Linux has VMs with networks of their own.
func Tidy(string) error { return nil }
