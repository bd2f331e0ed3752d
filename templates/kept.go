package templates

import "bootstrap/templates/cruby"

// CompiledRubies lists the compiled embedded Rubies in the cache of engines,
// including those of other versions of the program.
func CompiledRubies(cache string) ([]cruby.Kept, error) { return cruby.List(cache) }
