//go:build !unix

package cmd

import "context"

// resized tells nothing where no signal tells it.
func resized(context.Context) <-chan struct{} { return nil }
