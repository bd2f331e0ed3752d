package instance

import (
	"context"
	"errors"
	"slices"
	"strings"

	"bootstrap/agent"
)

// leastPassword is the smallest length of the password of an agent that other users of
// this machine can reach.
const leastPassword = 8

// knownPasswords returns passwords in the documentation and examples of BOSH and of this
// program.
func knownPasswords() []string {
	return []string{
		"quickstart-mbus-password", "mbus-password", "mbus_password", "mbus-user-password", "password", "password1", "admin", "admin123",
		"secret", "changeme", "bootstrap", "12345678", "123456789", "nats-password", "p4ssw0rd", "c1oudc0w",
	}
}

// CheckPassword refuses a well-known or short password of the agent, if a new VM is a
// folder: its agent runs as this user, and every user of this machine can reach it.
func (h *Host) CheckPassword(ctx context.Context) error {
	if !h.in.EmbeddedCPI() || h.in.Manifest.CPI.MBusURL == nil || h.in.Manifest.CPI.MBusPending || h.NewMachine(ctx).Kind != agent.MachineFolder {
		return nil
	}
	password, _ := h.in.Manifest.CPI.MBusURL.User.Password()
	const end = ", and every user of this machine can reach the agent of a VM that is a folder, which runs programs as you; use a variable of type password in cloud_provider.mbus and cloud_provider.properties.agent.mbus; nothing was changed"
	switch {
	case slices.Contains(knownPasswords(), strings.ToLower(password)), strings.EqualFold(password, h.in.Manifest.CPI.MBusURL.User.Username()):
		return errors.New("the password of the agent in cloud_provider.mbus is one that others know" + end)
	case len(password) < leastPassword:
		return errors.New("the password of the agent in cloud_provider.mbus has less than 8 characters" + end)
	}
	return nil
}
