//go:build !linux

package local

func machineVitals(all *vitals) {
	all.Mem, all.Swap = memoryOf(0, 0), memoryOf(0, 0)
}

func diskUse(string) (diskVitals, bool) { return diskVitals{}, false }
