//go:build !unix

package vm

import "context"

// resized does nothing on systems without a signal for it.
func resized(context.Context) <-chan struct{} { return nil }
