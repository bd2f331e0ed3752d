//go:build !linux && !darwin

package listener

import "context"

// find finds nothing: there is no simple way here.
func find(context.Context, string) Process { return Process{} }
