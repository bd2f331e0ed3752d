package cpi

import (
	"encoding/json"
	"os"
	"time"

	"bootstrap/internal/process"
	"bootstrap/internal/regular"
)

// Child is the CPI process that a recorded call runs in.
type Child struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	// Birth distinguishes the process from a later one with the same id.
	Birth string `json:"birth"`
}

// childFile is the file, mode 0600, that names the process which writes a
// reply.
func childFile(reply string) string { return reply + ".child" }

// RemoveReply deletes a reply and its pid file. It is called when the result is in the
// state.
func RemoveReply(file string) {
	if file != "" {
		_ = os.Remove(file)
		_ = os.Remove(childFile(file))
	}
}

// recordChild writes down which process writes the reply. The process may have ended
// already: processes that it started may hold the reply open for ever. On systems that do
// not say when a process began, only the lock on the reply shows that the CPI runs.
func recordChild(reply string, pid int) {
	birth := process.BirthOfChild(pid)
	host, err := os.Hostname()
	if birth == "" || err != nil {
		return
	}
	data, err := json.Marshal(Child{PID: pid, Host: host, Since: time.Now().UTC().Truncate(time.Second), Birth: birth})
	if err == nil {
		// The call continues without the file, because the lock shows nearly as
		// much.
		_ = os.WriteFile(childFile(reply), data, 0o600)
	}
}

// childOf reads what recordChild wrote.
func childOf(reply string) (c Child, known bool) {
	data, err := regular.Read(childFile(reply))
	if err != nil || json.Unmarshal(data, &c) != nil {
		return Child{}, false
	}
	host, err := os.Hostname()
	return c, err == nil && host == c.Host && c.PID > 1
}

// runs reports whether the process still runs.
func (c Child) runs() bool {
	birth := process.Birth(c.PID)
	return birth != "" && birth == c.Birth
}
