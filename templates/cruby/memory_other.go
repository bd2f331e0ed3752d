//go:build !unix

package cruby

import "github.com/tetratelabs/wazero/experimental"

// mapsFiles: allocator maps the file of a memory.
const mapsFiles = false

// allocator is nil: memory comes from Go's heap.
func allocator(*initial) experimental.MemoryAllocator { return nil }
