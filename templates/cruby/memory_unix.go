//go:build unix

package cruby

import (
	"fmt"
	"os"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// mapped is memory that grows in place up to its capacity, uses no memory until it is
// written to, and is returned to the system at once.
type mapped struct{ reserved []byte }

func allocator() experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		page := uint64(os.Getpagesize())
		reserved, err := unix.Mmap(-1, 0, int((most+page-1)&^(page-1)), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			panic(fmt.Errorf("cannot reserve %d MB of addresses: %w", most>>20, err))
		}
		return &mapped{reserved}
	})
}

// Reallocate makes the first size bytes usable; nil: out of memory.
func (m *mapped) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	page := uint64(os.Getpagesize())
	if err := unix.Mprotect(m.reserved[:(size+page-1)&^(page-1)], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil
	}
	return m.reserved[:size]
}

// Free returns the memory to the system.
func (m *mapped) Free() {
	_ = unix.Munmap(m.reserved)
	m.reserved = nil
}
