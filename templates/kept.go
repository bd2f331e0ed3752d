package templates

import "bootstrap/templates/cruby"

// CompiledRubies lists the compiled code of the embedded Ruby that engines with
// this cache have kept, also that of other versions of the program.
func CompiledRubies(cache string) ([]cruby.Kept, error) { return cruby.List(cache) }
