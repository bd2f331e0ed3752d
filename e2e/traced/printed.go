package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
)

// printed is a standard output that is also written to a file.
type printed struct {
	to, kept io.Writer
}

// keepJSON returns the standard output of a program with the given arguments. If the
// arguments ask for JSON and folder is given, the output is also written to a new file in
// the folder, after a line with the arguments: a test compares it with the schema.
func keepJSON(folder string, args []string) (io.Writer, error) {
	if folder == "" || !slices.Contains(args, "--json") || slices.Contains(args, "ssh") {
		return os.Stdout, nil
	}
	// Never closed: the process may be killed.
	f, err := os.CreateTemp(folder, "")
	if err != nil {
		return nil, err
	}
	return &printed{to: os.Stdout, kept: f}, json.NewEncoder(f).Encode(args)
}

func (p *printed) Write(data []byte) (int, error) {
	n, err := p.to.Write(data)
	if _, failed := p.kept.Write(data[:n]); err == nil {
		err = failed
	}
	return n, err
}
