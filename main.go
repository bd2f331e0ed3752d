// Bootstrap deploys a BOSH manifest to a VM, or to several, and keeps them as the
// manifest describes.
package main

import (
	"os"

	"bootstrap/cmd"
)

func main() {
	os.Exit(cmd.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
