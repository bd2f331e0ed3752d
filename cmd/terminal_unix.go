//go:build unix

package cmd

// terminalDevice is the terminal that controls this process.
const terminalDevice = "/dev/tty"
