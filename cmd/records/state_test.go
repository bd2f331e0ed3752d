package records

import (
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
)

func TestStateChoice(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		file     string
		args     []string
		min, max int
		path     string // empty: an error
		rest     int
	}{
		{"", []string{"m.yml"}, 0, 0, "m-state.json", 0},
		{"", nil, 0, 0, "", 0},
		{"s.json", nil, 0, 0, "s.json", 0},
		{"s.json", []string{"m.yml"}, 0, 0, "s.json", 0},
		{"s.json", []string{"m.yml", "x"}, 0, 0, "", 0},
		{"", []string{"m.yml"}, 1, 1, "", 0},
		{"", []string{"m.yml", "7"}, 1, 1, "m-state.json", 1},
		{"s.json", []string{"7"}, 1, 1, "s.json", 1},
		{"s.json", []string{"m.yml", "7"}, 1, 1, "s.json", 1},
		{"s.json", []string{"cid"}, 0, 1, "s.json", 1},
		{"", []string{"m.yml", "cid"}, 0, 1, "m-state.json", 1},
		{"", []string{"m.yml", "cid", "y"}, 0, 1, "", 0},
	} {
		choice := stateChoice{c: cli.New(cli.Process{}), file: c.file}
		path, rest, err := choice.split(&cobra.Command{Use: "show"}, c.args, c.min, c.max)
		if (err != nil) != (c.path == "") || err == nil && (filepath.Base(path) != c.path || len(rest) != c.rest) {
			t.Errorf("--state %q, %v: %s, %v, %v", c.file, c.args, path, rest, err)
		}
	}
}
