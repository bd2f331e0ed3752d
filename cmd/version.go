package cmd

import "bootstrap/cmd/about"

// aboutOf returns what commands that print something about the program use of the
// console.
func aboutOf(c *console) about.Console {
	return about.Console{
		Args:  noArgs,
		Start: func() { c.started = true },
		Print: c.product,
		Object: func(kind string, object any) bool {
			if c.json {
				printLines(c, kind, []any{object})
			}
			return c.json
		},
	}
}
