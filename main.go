// Bootstrap turns one BOSH-style manifest into one running VM and keeps the VM
// as the manifest describes it.
package main

import (
	"os"

	"bootstrap/cmd"
)

func main() {
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
