package cpi

import (
	"encoding/json"
	"os"
	"time"
)

// Child is the CPI process that a recorded call runs in.
type Child struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	// Birth tells the process from a later one with the same id.
	Birth string `json:"birth"`
}

// childFile is where the process that writes a reply is kept, 0600.
func childFile(reply string) string { return reply + ".child" }

// RemoveReply removes a reply and what stands beside it, once the state tells
// what it told.
func RemoveReply(file string) {
	if file != "" {
		_ = os.Remove(file)
		_ = os.Remove(childFile(file))
	}
}

// recordChild keeps which process writes the reply. Where the system does not
// tell when it began, the lock on the reply has to do.
func recordChild(reply string, pid int) {
	birth, ok := birthOf(pid)
	host, err := os.Hostname()
	if !ok || err != nil {
		return
	}
	data, err := json.Marshal(Child{PID: pid, Host: host, Since: time.Now().UTC().Truncate(time.Second), Birth: birth})
	if err == nil {
		// The call goes on without: the lock tells nearly as much.
		_ = os.WriteFile(childFile(reply), data, 0o600)
	}
}

// childOf reads what recordChild kept.
func childOf(reply string) (c Child, known bool) {
	data, err := os.ReadFile(childFile(reply))
	if err != nil || json.Unmarshal(data, &c) != nil {
		return Child{}, false
	}
	host, err := os.Hostname()
	return c, err == nil && host == c.Host && c.PID > 1
}

// runs tells whether the process is still there.
func (c Child) runs() bool {
	birth, ok := birthOf(c.PID)
	return ok && birth == c.Birth
}
