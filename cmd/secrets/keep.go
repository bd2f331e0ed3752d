package secrets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/manifest/store"
)

// KeptError says why an edited text is not in the vars store, and where it is kept.
type KeptError struct {
	Why   error
	Where string // a sentence
}

func (e *KeptError) Error() string { return e.Why.Error() + "; " + e.Where }

// All lists the places of all texts, because the editor may leave several files.
func (e *KeptError) All() string {
	if before, ok := errors.AsType[*KeptError](e.Why); ok {
		return before.All() + "; " + e.Where
	}
	return e.Where
}

func (e *KeptError) Unwrap() error { return e.Why }

// mostKept is the largest number of kept texts next to a vars store.
const mostKept = 100

// keep writes a text of the person, encrypted, next to the vars store, or where there is
// space. rest is the name of a further file of the editor; empty: it is the text itself.
func (e Edit) keep(ctx context.Context, f *store.File, text []byte, rest string, why error) error {
	to := f.To
	if len(to) == 0 {
		to = e.Keys.Recipients
	}
	data, err := e.Keys.Seal(context.WithoutCancel(ctx), f.Shown, text, to)
	if err != nil {
		return &KeptError{why, "your text is lost: " + err.Error()}
	}
	what := "your text is kept"
	if rest != "" {
		what = "the unsaved text of the editor is kept (" + rest + ")"
	}
	name := strings.TrimSuffix(f.Path, store.Suffix) + ".edited"
	shown := strings.TrimSuffix(f.Shown, store.Suffix) + ".edited"
	if e.Store.Team != nil {
		shown = name
	}
	base := filepath.Base(name)
	for _, at := range [][2]string{
		{name, shown}, {filepath.Join(os.TempDir(), base), filepath.Join(os.TempDir(), base)}, {filepath.Join(e.Memory, base), filepath.Join(e.Memory, base)},
	} {
		for n := range mostKept {
			end := store.Suffix
			if n > 0 {
				end = "." + strconv.Itoa(n+1) + end
			}
			if _, exists := os.Lstat(at[0] + end); exists == nil {
				continue // another text
			}
			if err = atomicfile.Write(at[0]+end, data); err == nil {
				return &KeptError{why, fmt.Sprintf("%s, encrypted, in %s; see it with: bootstrap secrets decrypt %s", what, at[1]+end, at[1]+end)}
			}
			break
		}
	}
	return &KeptError{why, "your text is lost: " + err.Error()}
}
