package main

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"bootstrap/templates/cruby"
)

// corpus contains templates with the features that templates of releases use. Each file
// is a job, whose templates are separated by a line of "%%%". Templates of a file named
// fails-… fail, and the last one of a file named ends-… ends Ruby. Those of a file named
// director-… have the context of a Director, with OpenStructs.
//
//go:embed corpus
var corpus embed.FS

// The template that is rendered for a profile, and its context.
const (
	corpusFiles  = "corpus/*.erb"
	contextFile  = "corpus/context.json"
	directorFile = "corpus/director.json"
	goldenFiles  = "[^o]*.erb"
)

const separator = "\n%%%\n"

// profileText is the profile that make profile has made from the corpus.
//
//go:embed profile.txt
var profileText string

// writeProfile returns a profile of the code in a package as a text.
func writeProfile(p cruby.Profile, pkg string) []byte {
	text := pkg + "\n"
	for part := range slices.Chunk(p, 48) {
		text += base64.StdEncoding.EncodeToString(part) + "\n"
	}
	return []byte(text)
}

// readProfile is the inverse of writeProfile.
func readProfile(text, pkg string) (cruby.Profile, error) {
	of, rest, _ := strings.Cut(text, "\n")
	if of != pkg {
		return nil, fmt.Errorf("the profile is of %s, and the package is %s: make profile", of, pkg)
	}
	return base64.StdEncoding.DecodeString(strings.ReplaceAll(rest, "\n", ""))
}

// small is the size up to which functions belong to every profile. A template that
// needs a function outside of the profile costs seconds; all small functions together
// are a twentieth of the machine code.
const small = 160

// profile renders the corpus and the templates in a folder, and returns the functions
// of the module that were called.
func profile(ctx context.Context, wasm, memory []byte, library fs.FS, more string) (cruby.Profile, error) {
	seen := &seen{}
	m, err := cruby.CompileImage(experimental.WithFunctionListenerFactory(ctx, seen), wasm, memory)
	if err != nil {
		return nil, err
	}
	defer m.Close(ctx)
	if err := rehearseAll(ctx, m, corpus, corpusFiles, library); err != nil {
		return nil, err
	}
	if err := rehearseAll(ctx, m, os.DirFS(more), goldenFiles, library); err != nil {
		return nil, err
	}
	sizes, err := cruby.Functions(wasm)
	for i, size := range sizes {
		if size <= small {
			seen.profile.Add(i)
		}
	}
	return seen.profile, err
}

// rehearseAll renders the jobs of a folder.
func rehearseAll(ctx context.Context, m *cruby.Module, from fs.FS, pattern string, library fs.FS) error {
	jobs, err := fs.Glob(from, pattern)
	if err != nil {
		return err
	}
	var errs []error // of all templates: another Ruby may fail in several
	for _, job := range jobs {
		text, err := fs.ReadFile(from, job)
		if err != nil {
			return err
		}
		context := contextFile
		if strings.HasPrefix(path.Base(job), "director-") {
			context = directorFile
		}
		facts, err := corpus.ReadFile(context)
		if err != nil {
			return err
		}
		r, err := m.Start(ctx, cruby.Machine{Library: library, Frozen: true})
		if err != nil {
			return err
		}
		templates := strings.Split(string(text), separator)
		for i, template := range templates {
			err := rehearse(ctx, r, job, template, facts, i == 0)
			if _, ended := errors.AsType[*cruby.ExitError](err); ended && i == len(templates)-1 && strings.HasPrefix(path.Base(job), "ends-") {
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("template %d of %s: %w", i+1, job, err))
				break
			}
		}
		if err := r.Close(ctx); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// rehearse renders one template; only the first template of a job comes with the context.
func rehearse(ctx context.Context, r *cruby.Ruby, job, template string, facts []byte, first bool) error {
	request := map[string]any{"file": job, "template": []byte(template)}
	if first {
		request["context"] = json.RawMessage(facts)
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	text, err := r.Eval(ctx, `BootstrapTemplates.answer("`+base64.StdEncoding.EncodeToString(line)+`".unpack1("m"))`)
	if err != nil {
		return err
	}
	fails := strings.HasPrefix(path.Base(job), "fails-")
	if strings.HasPrefix(text, `{"error":`) != fails {
		return fmt.Errorf("got %s", text)
	}
	return nil
}

// seen records the functions that were called, as a profile.
type seen struct {
	profile cruby.Profile
	imports uint32
}

// NewFunctionListener listens to the module's own functions. Their indexes follow those
// of the imported functions.
func (s *seen) NewFunctionListener(f api.FunctionDefinition) experimental.FunctionListener {
	if f.GoFunction() != nil {
		return nil
	}
	if s.profile == nil {
		s.imports = f.Index()
	}
	own := int(f.Index() - s.imports)
	for len(s.profile) <= own/8 {
		s.profile = append(s.profile, 0)
	}
	return experimental.FunctionListenerFunc(func(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
		s.profile.Add(own)
	})
}
