package cli

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/internal/overwrite"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// written returns the flags of a command that write files, with their kinds.
func written(cmd *cobra.Command) map[string]overwrite.Kind {
	page := overwrite.Kind{Name: "the page"} // it is compared when it is written
	list := map[string]overwrite.Kind{"events": overwrite.Lines("the events", "kind")}
	add := func(flag string, kind overwrite.Kind) {
		if cmd.Flags().Lookup(flag) != nil {
			list[flag] = kind
		}
	}
	switch cmd.CommandPath() {
	case "bootstrap plan":
		add("out", overwrite.JSON("the plan", "format", "salt", "inputs", "plan"))
		add("html", page)
	case "bootstrap report":
		add("html", page)
	case "bootstrap fleet report":
		add("out", reportKind(cmd))
	case "bootstrap logs":
		add("out", overwrite.Kind{Name: "the logs"})
	}
	return list
}

// reportKind returns the kind of a fleet's report.
func reportKind(cmd *cobra.Command) overwrite.Kind {
	yes := func(flag string) bool { f := cmd.Flags().Lookup(flag); return f != nil && f.Value.String() == "true" }
	begins := func(text string) func([]byte) bool {
		return func(data []byte) bool { return bytes.HasPrefix(bytes.ToLower(data), []byte(text)) }
	}
	switch {
	case yes("junit"):
		return overwrite.Kind{Name: "the report", Is: begins("<?xml")}
	case yes("html"):
		return overwrite.Kind{Name: "the report", Is: begins("<!doctype html>")}
	}
	return overwrite.JSON("the report", "format", "run", "fleet", "members")
}

// refuseOverwriting returns an error if the command would overwrite a file that it reads,
// or a file of another kind.
func (c *Console) refuseOverwriting(cmd *cobra.Command, args []string) error {
	flags := written(cmd)
	var inputs []string
	for name, kind := range flags {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Value.String() == "" {
			continue
		}
		if inputs == nil {
			inputs = c.InputFiles(cmd, args)
		}
		path := f.Value.String()
		if expanded, err := document.ExpandHome(path); err == nil {
			path = expanded
		}
		if err := overwrite.Refuse(path, inputs, kind); err != nil {
			if name == "events" {
				c.Reports.path = ""
			}
			return err
		}
	}
	return nil
}

// InputFiles returns the files that a command may read or keep, as they are named: every
// word of the command line that can be a path, the flags of the environment, the state
// and the vars store with the files next to them.
func (c *Console) InputFiles(cmd *cobra.Command, args []string) []string {
	list := []string{}
	add := func(word string) {
		for _, path := range []string{word, strings.TrimPrefix(word, "file://")} {
			if expanded, err := document.ExpandHome(path); err == nil && path != "" {
				list = append(list, expanded)
			}
		}
	}
	outputs := written(cmd)
	skip, command := false, len(strings.Fields(cmd.CommandPath()))-1 // the words of the command's name
	for _, word := range c.line.full.Args {
		name, value, whole := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		_, output := outputs[name]
		switch {
		case skip:
			skip = false
		case strings.HasPrefix(word, "--") && output:
			skip = !whole
		case strings.HasPrefix(word, "--"):
			add(value)
		case strings.HasPrefix(word, "-") && len(word) > 2:
			add(word[2:])
		case command > 0:
			command--
		default:
			value = word
			add(word)
		}
		if _, path, ok := strings.Cut(value, "="); ok { // NAME=PATH, exec=PATH
			add(path)
		}
	}
	if c.line.full.File != nil {
		add(c.line.full.File.Path)
	}
	var kept []string
	text := func(flag string) string {
		if f := cmd.Flags().Lookup(flag); f != nil {
			return f.Value.String()
		}
		return ""
	}
	if store := text("vars-store"); store != "" {
		kept = append(kept, store)
	}
	if len(args) > 0 {
		if path, err := file.Path(args[0], text("state")); err == nil {
			kept = append(kept, path)
		}
		kept = append(kept, filepath.Join(filepath.Dir(args[0]), "fleet-run.json"), strings.TrimSuffix(args[0], filepath.Ext(args[0]))+"-run.json")
	}
	for _, path := range kept {
		for _, end := range []string{"", ".lock", ".previous"} {
			add(path + end)
		}
	}
	return slices.Compact(list)
}
