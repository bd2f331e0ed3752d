//go:build !unix

package cruby

import "github.com/tetratelabs/wazero/experimental"

// allocator is nil: memory comes from Go's heap.
func allocator() experimental.MemoryAllocator { return nil }
