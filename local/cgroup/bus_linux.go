package cgroup

import (
	"context"
	"math"
	"os"
	"strconv"

	"github.com/godbus/dbus/v5"
)

// bus is a socket at which systemd answers D-Bus calls.
type bus struct {
	path  string
	hello bool // the socket belongs to a bus, which needs a greeting; otherwise to systemd
}

// startScope makes systemd create a scope with the process in it: a cgroup that ends with
// its processes. Errors have the text of systemd.
func (b bus) startScope(ctx context.Context, name string, pid int, limits Limits) error {
	conn, err := dbus.Dial("unix:path="+dbus.EscapeBusAddressValue(b.path), dbus.WithContext(ctx))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		return err
	}
	if b.hello {
		if err := conn.Hello(); err != nil {
			return err
		}
	}
	var otherUnits []struct {
		Name       string
		Properties []property
	}
	const replaceNone = "fail" // it fails if a unit with that name exists
	systemd := conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	return systemd.CallWithContext(ctx, "org.freedesktop.systemd1.Manager.StartTransientUnit", 0,
		name, replaceNone, properties(pid, limits), otherUnits).Err
}

// property is a property of a unit of systemd.
type property struct {
	Name  string
	Value dbus.Variant
}

func properties(pid int, limits Limits) []property {
	var all []property
	set := func(name string, value any) { all = append(all, property{name, dbus.MakeVariant(value)}) }
	set("Description", "a VM of bootstrap")
	set("PIDs", []uint32{uint32(pid)}) // #nosec G115 -- process ids are positive and below 2^22
	set("Delegate", true)              // the VM may divide the cgroup
	set("CollectMode", "inactive-or-failed")
	set("MemoryAccounting", true)
	set("CPUAccounting", true)
	set("TasksAccounting", true)
	if limits.Memory > 0 {
		set("MemoryMax", limits.Memory)
		set("MemorySwapMax", uint64(0))
	}
	if limits.CPU > 0 {
		set("CPUQuotaPerSecUSec", uint64(math.Round(limits.CPU*1e6)))
	}
	if limits.PIDs > 0 {
		set("TasksMax", uint64(limits.PIDs))
	}
	return all
}
