package cmd

import (
	"bootstrap/cmd/about"
	"bootstrap/cmd/explain"
	"bootstrap/cmd/usage"
)

// aboutOf returns what commands that print something about the program use of the
// console.
func aboutOf(c *console) about.Console {
	return about.Console{Args: usage.NoArgs, Start: func() { c.started = true }, Print: func(kind, text string, object any) {
		if !c.json || object == nil {
			c.product(kind, text)
			return
		}
		printLines(c, kind, []any{object})
	}}
}

// explainOf returns what the command explain uses of the console.
func explainOf(c *console) explain.Console {
	return explain.Console{
		Start: func() { c.started = true },
		Print: c.print,
		Width: func() int {
			if f := c.terminalOf(c.out); f != nil {
				return widthOf(f)()
			}
			return 0
		},
		Objects: func(list []explain.Explanation) bool {
			if c.json {
				printLines(c, "explanation", list)
			}
			return c.json
		},
	}
}
