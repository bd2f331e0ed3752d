//go:build unix

package cruby

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// mapsFiles: allocator maps the file of a memory.
const mapsFiles = true

// mapped is memory that grows in place up to its capacity. It uses no physical memory
// until it is written to, and is returned to the system at once.
type mapped struct{ reserved []byte }

// allocator returns memory with the initial content of the file, which may be nil.
func allocator(m *initial) experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		reserved, err := unix.Mmap(-1, 0, pages(most), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			panic(fmt.Errorf("cannot reserve %d MB of addresses: %w", most>>20, err))
		}
		memory := &mapped{reserved}
		if m == nil || m.file == nil {
			return memory
		}
		for _, r := range m.runs {
			if err := overlay(reserved[r.at:r.at+r.size], m.file, r.from); err != nil {
				panic(fmt.Errorf("cannot map %s: %w", m.file.Name(), err))
			}
		}
		return memory
	})
}

// overlay maps a part of a file over memory. What is written there does not change the
// file.
func overlay(memory []byte, file *os.File, from int64) error {
	begin := unsafe.Pointer(&memory[0]) // #nosec G103 -- the memory is a part of a mapping
	_, err := unix.MmapPtr(int(file.Fd()), from, begin, uintptr(len(memory)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// Reallocate makes the first size bytes usable; nil: out of memory.
func (m *mapped) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if err := unix.Mprotect(m.reserved[:pages(size)], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil
	}
	return m.reserved[:size]
}

// Free returns the memory to the system.
func (m *mapped) Free() {
	_ = unix.Munmap(m.reserved)
	m.reserved = nil
}

// pages rounds up to the pages of this machine.
func pages(size uint64) int {
	page := uint64(os.Getpagesize())
	return int((size + page - 1) &^ (page - 1))
}
