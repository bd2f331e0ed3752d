package cpi

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"bootstrap/internal/process"
)

// A job that changes the memory of the VM's first process, including the mark by which
// the CPI finds the VM's processes, cannot keep the VM running.
func TestHiddenVM(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	stemcell := w.stemcell(t)
	vm := w.vm(t, stemcell)
	init := w.first(t, vm)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", init))
	if err != nil {
		t.Fatal(err)
	}
	// Fields 50 and 51 are the addresses where the environment begins and ends.
	fields := strings.Fields(string(stat[slices.Index(stat, ')')+2:]))
	var begin, end int64
	if _, err := fmt.Sscan(fields[47]+" "+fields[48], &begin, &end); err != nil {
		t.Fatal(err)
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", init), os.O_RDWR, 0)
	if err != nil {
		t.Skipf("the memory of the VM's first process cannot be opened here: %v", err)
	}
	defer memory.Close()
	if _, err := memory.WriteAt(make([]byte, end-begin), begin); err != nil {
		t.Fatal(err)
	}
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if process.Lives(init) {
		t.Error("the VM's first process still runs")
	}
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}
