package namespace

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pretendUsers makes calls that change the user, the groups or an owner succeed
// without effect where the VM has only one user. Programs that give up root and
// scripts that hand files to vcap then work: everything belongs to that user
// anyway. It covers this process and all that it starts.
func pretendUsers() error {
	ids, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	if strings.Count(string(ids), "\n") > 1 || !strings.HasSuffix(strings.TrimSpace(string(ids)), " 1") {
		return nil // it has several
	}
	program := pretence()
	if program == nil {
		return nil // not written for this processor
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, failed := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter))) // #nosec G103 -- the call reads the filter before it returns
	if failed != 0 {
		return fmt.Errorf("cannot filter the calls that change users: %w", failed)
	}
	return nil
}

// Offsets in the kernel's struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArgs = 16
)

// pretence is a program of the kernel's packet filter language: calls of
// changesIDs in which an argument names another user or group than root return
// 0, as if they had been done, and all other calls are done.
func pretence() []unix.SockFilter {
	arch, calls := changesIDs()
	if arch == 0 {
		return nil
	}
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		{Code: load, K: dataArch},
		{Code: same, K: arch, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: load, K: dataCall},
	}
	for _, call := range calls {
		var block []unix.SockFilter
		for _, arg := range call.args {
			// Root and "leave it as it is" go on to the next argument.
			block = append(block,
				unix.SockFilter{Code: load, K: dataArgs + 8*uint32(arg)},
				unix.SockFilter{Code: same, K: 0, Jt: 2},
				unix.SockFilter{Code: same, K: 0xffffffff, Jt: 1},
				unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO},
			)
		}
		last := uint32(unix.SECCOMP_RET_ALLOW)
		if len(call.args) == 0 {
			last = unix.SECCOMP_RET_ERRNO // with error 0: success
		}
		block = append(block, unix.SockFilter{Code: ret, K: last})
		program = append(program, unix.SockFilter{Code: same, K: call.number, Jf: uint8(len(block))})
		program = append(program, block...)
	}
	return append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}

// idCall is a system call and which of its arguments are users or groups; none:
// it is never done.
type idCall struct {
	number uint32
	args   []int
}
