//go:build unix

package cli

// terminalDevice is the path of this process's controlling terminal.
const terminalDevice = "/dev/tty"
