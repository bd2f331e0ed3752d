package namespace

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterCalls filters the system calls of this process and its descendants. Calls about
// keys fail, as if the kernel had no keys: the keys of a user, and their number, belong
// to all processes of that user, also outside of the VM. If the VM has only one user,
// calls that change the user, the groups or an owner succeed without effect. So programs
// that give up root and scripts that give files to vcap work: everything belongs to that
// user anyway.
func filterCalls() error {
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	one := strings.Count(string(ids), "\n") == 1 && strings.HasSuffix(strings.TrimSpace(string(ids)), " 1")
	program := callFilter(one)
	if program == nil {
		return nil // there are no filters for this processor
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, failed := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))) // #nosec G103 -- the call reads the filter before it returns
	if failed != 0 {
		return fmt.Errorf("cannot filter the calls of the VM: %w", failed)
	}
	return nil
}

// Offsets in the kernel's struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16
)

// Instructions of the kernel's packet filter language.
const (
	filterLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	filterSame = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	filterEnd  = unix.BPF_RET | unix.BPF_K
)

// callFilter returns a program in that language. Calls about keys fail with ENOSYS. With
// pretend, calls of changesIDs that name a user or group other than root return 0 without
// being executed. All other calls are executed.
func callFilter(pretend bool) []unix.SockFilter {
	arch, calls := changesIDs()
	if arch == 0 {
		return nil
	}
	allow := unix.SockFilter{Code: filterEnd, K: unix.SECCOMP_RET_ALLOW}
	program := []unix.SockFilter{{Code: filterLoad, K: dataArch}}
	for _, other := range keyCalls() {
		if other.arch == arch {
			continue
		}
		block := append(other.refuse(), allow)
		program = append(program, unix.SockFilter{Code: filterSame, K: other.arch, Jf: uint8(len(block))})
		program = append(program, block...)
	}
	program = append(program, unix.SockFilter{Code: filterSame, K: arch, Jt: 1}, allow)
	for _, own := range keyCalls() {
		if own.arch == arch {
			program = append(program, own.refuse()...)
		}
	}
	if pretend {
		program = append(program, pretence(calls)...)
	}
	return append(program, allow)
}

// archCalls contains the system call numbers of one processor.
type archCalls struct {
	arch    uint32
	numbers []uint32
}

// refuse returns the part of a filter that makes these calls fail.
func (a archCalls) refuse() []unix.SockFilter {
	part := []unix.SockFilter{{Code: filterLoad, K: dataCall}}
	for _, number := range a.numbers {
		part = append(part,
			unix.SockFilter{Code: filterSame, K: number, Jf: 1},
			unix.SockFilter{Code: filterEnd, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		)
	}
	return part
}

// pretence returns the part of a filter that makes calls succeed without effect. The
// number of the call is loaded before.
func pretence(calls []idCall) []unix.SockFilter {
	var program []unix.SockFilter
	for _, call := range calls {
		var block []unix.SockFilter
		for _, arg := range call.args {
			// If it is root or "unchanged", the next argument is checked.
			block = append(block,
				unix.SockFilter{Code: filterLoad, K: dataArgs + 8*uint32(arg)},
				unix.SockFilter{Code: filterSame, K: 0, Jt: 2},
				unix.SockFilter{Code: filterSame, K: 0xffffffff, Jt: 1},
				unix.SockFilter{Code: filterEnd, K: unix.SECCOMP_RET_ERRNO},
			)
		}
		last := uint32(unix.SECCOMP_RET_ALLOW)
		if len(call.args) == 0 {
			last = unix.SECCOMP_RET_ERRNO // with error 0: success
		}
		block = append(block, unix.SockFilter{Code: filterEnd, K: last})
		program = append(program, unix.SockFilter{Code: filterSame, K: call.number, Jf: uint8(len(block))})
		program = append(program, block...)
	}
	return program
}

// idCall is a system call, with the indexes of its arguments that are users or groups;
// none: it is never executed.
type idCall struct {
	number uint32
	args   []int
}
