package rollout

import "github.com/shirou/gopsutil/v4/mem"

// fallbackMemory is used if the machine's memory is unknown, in bytes.
const fallbackMemory = 4 << 30

// memory returns how much memory programs can still use, in bytes.
func memory() uint64 {
	m, err := mem.VirtualMemory()
	if err != nil || m.Available == 0 {
		return fallbackMemory
	}
	return m.Available
}
