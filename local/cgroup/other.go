//go:build !linux

package cgroup

import (
	"context"
	"errors"
)

// Home is a place for the cgroups of VMs.
type Home struct{}

// Find returns an error: only Linux has cgroups.
func Find() (Home, error) { return Home{}, &RefusedError{Cause: "only Linux has cgroups"} }

// Delegated returns an error: only Linux has cgroups.
func Delegated() (Home, error) { return Home{}, &RefusedError{Cause: "only Linux has cgroups"} }

// Can returns an error: only Linux has cgroups.
func (Home) Can(Limits) (Limits, error) {
	return Limits{}, &RefusedError{Cause: "only Linux has cgroups"}
}

// Hold returns an error: only Linux has cgroups.
func (Home) Hold(context.Context, string, int, Limits, int, int) (string, error) {
	return "", errors.ErrUnsupported
}

// Remove does nothing: only Linux has cgroups.
func Remove(context.Context, string) error { return nil }

// Stray returns nothing: only Linux has cgroups.
func Stray(string) []string { return nil }

// CountsByNamespace reports that only Linux has user namespaces.
func CountsByNamespace() bool { return false }
