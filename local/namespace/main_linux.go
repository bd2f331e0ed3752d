package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"bootstrap/internal/process"
)

// Main runs the part of a VM that args name: "try", "build SPEC", "init SPEC",
// "systemd PROGRAM", "ask UNITS" or "tree ...". It reports the result to the process that has started it.
func Main(ctx context.Context, args []string) error {
	if !process.IsPipe(saysFD) || args[0] != "try" && args[0] != "tree" && args[0] != "systemd" && args[0] != "ask" && !process.IsPipe(waitFD) {
		return errors.New("cannot start a part of a VM: only bootstrap itself starts these parts")
	}
	if args[0] == "build" || args[0] == "tree" {
		if err := becomeRoot(); err != nil {
			report(err)
			return err
		}
	}
	for _, fd := range []int{logFD, aliveFD, saysFD, waitFD} {
		syscall.CloseOnExec(fd)
	}
	if args[0] == "try" {
		report(try())
		return nil
	}
	if args[0] == "tree" {
		report(doTree(ctx, args[1:]))
		return nil
	}
	var spec Spec
	if len(args) != 2 {
		return fmt.Errorf("cannot start a part of a VM with %d arguments", len(args))
	}
	switch args[0] {
	case "systemd":
		report(runSystemd(args[1]))
		return nil
	case "ask":
		return answer(ctx, args[1])
	}
	if err := json.Unmarshal([]byte(args[1]), &spec); err != nil {
		return fmt.Errorf("cannot read the description of the VM: %w", err)
	}
	switch args[0] {
	case "build":
		inherited(spec.Mounted)
		report(buildVM(spec))
		return nil
	case "init":
		return runInit(ctx, spec)
	}
	return fmt.Errorf("a VM has no part named '%s'", args[0])
}
