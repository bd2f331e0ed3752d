package namespace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"bootstrap/internal/wait"
)

// How long systemd may take until the wanted units are active, and then until it has done
// all jobs of the boot.
const (
	systemdTime = time.Minute
	settleTime  = 20 * time.Second
	askPause    = 50 * time.Millisecond
)

// askSystemd waits until units are active and stay so until the boot is done, and reports
// the state of systemd.
func askSystemd(ctx context.Context, units string) (Booted, error) {
	var asked asking
	defer asked.close()
	if err := json.Unmarshal([]byte(units), &asked.wanted); err != nil {
		return Booted{}, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, systemdTime, fmt.Errorf("it took longer than %s", systemdTime))
	defer cancel()
	for {
		if err := wait.Poll(limited, askPause, func() (bool, error) { return asked.active(limited), nil }); err != nil {
			return Booted{Reason: asked.explain(err)}, nil
		}
		if asked.stayActive(ctx) {
			return Booted{Systemd: asked.state, Failed: asked.failed}, nil
		}
	}
}

// systemdSocket is the socket of systemd itself, which needs no bus.
const systemdSocket = "/run/systemd/private"

// asking asks the systemd of a VM about its units.
type asking struct {
	wanted []string
	conn   *dbus.Conn
	states []unitState
	err    error    // of the last call
	state  string   // such as running or degraded
	failed []string // units
}

// unitState is a unit as systemd lists it.
type unitState struct {
	Name, Description, Load, Active, Sub, Following string
	Path                                            dbus.ObjectPath
	Job                                             uint32
	JobType                                         string
	JobPath                                         dbus.ObjectPath
}

func (a *asking) close() {
	if a.conn != nil {
		_ = a.conn.Close()
		a.conn = nil
	}
}

// call calls a method of systemd's manager. It connects first, if there is no connection.
func (a *asking) call(ctx context.Context, method string, result any, args ...any) error {
	if a.conn == nil {
		conn, err := dbus.Dial("unix:path="+systemdSocket, dbus.WithContext(ctx))
		if err != nil {
			return err
		}
		if err := conn.Auth([]dbus.Auth{dbus.AuthExternal("0")}); err != nil {
			_ = conn.Close()
			return err
		}
		a.conn = conn
	}
	err := a.conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1").CallWithContext(ctx, method, 0, args...).Store(result)
	if err != nil {
		a.close()
	}
	return err
}

const manager = "org.freedesktop.systemd1.Manager"

// active reports whether all wanted units are active.
func (a *asking) active(ctx context.Context) bool {
	if a.err = a.call(ctx, manager+".ListUnitsByNames", &a.states, a.wanted); a.err != nil {
		return false
	}
	return len(a.states) == len(a.wanted) && !slices.ContainsFunc(a.states, func(s unitState) bool { return s.Active != "active" })
}

// stayActive waits until systemd has done all jobs of the boot, but not for a slow unit, and
// reports whether all wanted units are active then: one that ends at once was so for a moment.
func (a *asking) stayActive(ctx context.Context) bool {
	settled, stop := context.WithTimeout(ctx, settleTime)
	defer stop()
	_ = wait.Poll(settled, askPause, func() (bool, error) { return a.settled(settled), nil })
	limited, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	active := false
	_ = wait.Poll(limited, askPause, func() (bool, error) {
		active = a.active(limited)
		return a.err == nil, nil // a connection ends with the context that it was made with
	})
	return active
}

// settled reports whether systemd has done all jobs of the boot. It sets state and failed.
func (a *asking) settled(ctx context.Context) bool {
	var failed []unitState
	if a.call(ctx, "org.freedesktop.DBus.Properties.Get", &a.state, manager, "SystemState") != nil ||
		a.call(ctx, manager+".ListUnitsFiltered", &failed, []string{"failed"}) != nil {
		return false
	}
	a.failed = nil
	for _, one := range failed {
		a.failed = append(a.failed, one.Name)
	}
	slices.Sort(a.failed)
	return a.state != "initializing" && a.state != "starting"
}

// explain adds the states of the wanted units to an error.
func (a *asking) explain(err error) string {
	text := err.Error()
	if a.states == nil {
		return fmt.Sprintf("it does not answer (%v); %s", a.err, text)
	}
	var all []string
	for _, s := range a.states {
		all = append(all, fmt.Sprintf("%s is %s (%s)", s.Name, s.Active, s.Sub))
	}
	return strings.Join(all, ", ") + "; " + text
}

// record writes the file with Booted.
func (i *initProcess) record(booted Booted) error {
	text, err := json.Marshal(booted)
	if err != nil {
		return err
	}
	if err := i.booted.Truncate(0); err != nil {
		return err
	}
	_, err = i.booted.WriteAt(text, 0)
	return err
}

// answer writes the report of askSystemd to the process that has started this one.
func answer(ctx context.Context, units string) error {
	booted, err := askSystemd(ctx, units)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.NewFile(saysFD, "report")).Encode(booted)
}
