package document

import (
	"slices"
	"time"

	"bootstrap/manifest/gen"
)

// The values of update_mode: whether a stored value that does not match the options of its
// variable is generated again.
const (
	convergeMode    = "converge"
	noOverwriteMode = "no-overwrite" // the default
	overwriteMode   = "overwrite"    // each deploy of a Director generates a new value; not done here
)

// UpdateModes returns the values of update_mode.
func UpdateModes() []string { return []string{noOverwriteMode, convergeMode, overwriteMode} }

// readUpdateModes reads update_mode of all variables, and features.converge_variables.
func (e *evaluation) readUpdateModes() {
	all := e.top().Get("features").Get("converge_variables").raw() == "true"
	for _, def := range e.distinct() {
		place := def.place.Get("update_mode")
		switch mode := place.raw(); {
		case mode == convergeMode:
			def.converges = true
		case mode == noOverwriteMode:
		case place.IsNull():
			def.converges = all
		default:
			place.Warn("is not used: a value stays, or with %s is generated again if it does not match the options; bootstrap variables rotate generates a new one at any time", convergeMode)
		}
	}
}

// converge finds the stored values that are to be generated again because the options of
// their variables have changed, or the CA that signs them. For an instance it finds its own
// values.
func (e *evaluation) converge() {
	if e.store == nil || e.opts.Generate == Refuse {
		return
	}
	for _, def := range e.distinct() {
		if def.each == (e.instance != nil) {
			def.stale = false
		}
	}
	seen := map[string]bool{}
	for _, def := range e.distinct() {
		e.findStale(def, seen)
	}
}

// findStale sets stale of a definition and, before, of those that it is generated from.
func (e *evaluation) findStale(def *definition, seen map[string]bool) {
	if seen[def.name] || def.each != (e.instance != nil) {
		return
	}
	seen[def.name] = true
	v := e.given(def.name)
	if !def.converges || def.kind == "" || v == nil || v != e.store.get(e.key(def.name)) {
		return
	}
	for _, name := range slices.Concat(def.requires(), def.uses()) {
		if from := e.byName[name]; from != nil {
			e.findStale(from, seen)
			if from.stale && from.value == nil {
				def.stale = true
				return
			}
		}
	}
	current := func(name string) *variable {
		if from := e.byName[name]; from != nil && from.value != nil {
			return from.value
		}
		return e.given(name)
	}
	ca := func(name string) (any, bool) {
		if signer := current(name); signer != nil {
			return signer.value.plain(), true
		}
		return nil, false
	}
	def.stale = slices.ContainsFunc(e.check(def, v, current, ca, time.Now(), 0), func(f gen.Finding) bool {
		return f.Kind == gen.Mismatch || f.Kind == gen.OtherCA
	})
}
