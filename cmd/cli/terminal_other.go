//go:build !unix

package cli

// terminalDevice is the path of this process's console.
const terminalDevice = "CONOUT$"
