//go:build !unix

package cmd

// terminalDevice is the console of this process.
const terminalDevice = "CONOUT$"
