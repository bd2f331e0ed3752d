package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"bootstrap/deployer/instance"
)

// Process has the parameters of one run of the program.
type Process struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string
	Trace          func(instance.Point) // called at each point of a deploy, in the tests' program; may be nil
}

// Getenv returns a variable of the environment; empty: it is not set.
func (p Process) Getenv(name string) string {
	value := ""
	for _, kv := range p.Env { // the last value counts, as for a child process
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v
		}
	}
	return value
}

// BoshHome returns the folder ~/.bosh, for caches and installed CPIs.
func (p Process) BoshHome() (string, error) {
	home := p.Getenv("HOME")
	if home == "" {
		return "", fmt.Errorf("cannot find the home folder: HOME is not set, and caches and installations are kept in ~/.bosh")
	}
	return filepath.Join(home, ".bosh"), nil
}

// input returns the terminal of standard input; nil: it is not a terminal.
func (p Process) input() *os.File {
	if in, ok := p.Stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return in
	}
	return nil
}
