package state

import (
	"fmt"
	"time"
)

// Holder describes the process that holds a lock.
type Holder struct {
	User    string    `json:"user"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`

	// Machine and Born identify the machine or the container, and the process, as long
	// as both run. Machine is empty if nothing distinguishes it from others. Run is
	// different for each lock. These three are only in the locks of stores.
	Machine string `json:"machine,omitempty"`
	Born    string `json:"born,omitempty"`
	Run     string `json:"run,omitempty"`
}

// Who returns the user and the host.
func (h Holder) Who() string { return h.User + "@" + h.Host }

// String describes the process for people.
func (h Holder) String() string {
	return fmt.Sprintf("%s, process %d, `bootstrap %s`, since %s", h.Who(), h.PID, h.Command, h.Since.UTC().Format("2006-01-02 15:04 UTC"))
}
