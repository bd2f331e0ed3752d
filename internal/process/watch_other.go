//go:build !linux

package process

import "context"

// Watch cannot tell here when a process ends.
func Watch(context.Context, int, func()) (cancel func(), ok bool) { return nil, false }
