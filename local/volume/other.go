//go:build !linux

package volume

import (
	"context"
	"errors"
	"os"
)

var errOther = errors.New("only Linux has loop devices")

// Can returns an error: only Linux has loop devices.
func Can() error { return &RefusedError{Cause: errOther.Error()} }

// Make returns an error: only Linux has loop devices.
func Make(context.Context, string, int, int, int) error { return errOther }

// Open returns an error: only Linux has loop devices.
func Open(string) (*os.File, error) { return nil, errOther }

// Folder returns an error: only Linux has loop devices.
func Folder(string) (*os.File, error) { return nil, errOther }

// Grow returns an error: only Linux has loop devices.
func Grow(context.Context, string, int, int, int) error { return errOther }

// Copy returns an error: only Linux has loop devices.
func Copy(context.Context, string, string) error { return errOther }

// Fill returns an error: only Linux has loop devices.
func Fill(context.Context, string, string) error { return errOther }
