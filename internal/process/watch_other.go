//go:build !linux

package process

import "context"

// Watch returns false: this operating system does not report the end of a
// process.
func Watch(context.Context, int, func()) (cancel func(), ok bool) { return nil, false }
