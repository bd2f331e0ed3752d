//go:build unix

package cmd

// terminalDevice is the path of this process's controlling terminal.
const terminalDevice = "/dev/tty"
