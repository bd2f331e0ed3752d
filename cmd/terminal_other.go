//go:build !unix

package cmd

// terminalDevice is the path of this process's console.
const terminalDevice = "CONOUT$"
