package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/guard"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/process"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/document"
	"bootstrap/manifest/store"
)

// Edit is what bootstrap secrets edit was asked for.
type Edit struct {
	Store          Place
	Keys           *sealed.Keys
	Editor         string // command of a shell
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Memory         string // folder of files that are only in memory; need not exist
	Say            func(message string)
	// Again asks, after it has shown what is wrong, whether to edit again; nil: nobody
	// can be asked.
	Again func(ctx context.Context, wrong error) (bool, error)
}

// folderName begins the names of the folders in which texts are edited.
const folderName = "bootstrap-edit-"

// Run lets the person edit the text of a vars store.
func (e Edit) Run(ctx context.Context) (*Result, error) {
	if e.Editor == "" {
		return nil, errors.New("no editor is known: set $VISUAL or $EDITOR")
	}
	f, err := e.Store.open(e.Keys)
	if err != nil {
		return nil, err
	}
	before, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	if err := f.Writable(); err != nil {
		return nil, err
	}
	after, err := e.edit(ctx, f, before)
	if err != nil {
		return nil, err
	}
	r := &Result{Store: f.Shown, Recipients: f.To}
	if bytes.Equal(before, after) {
		r.say("Nothing was changed. (An editor with windows needs a flag to be waited for, such as code --wait.)")
		return r, nil
	}
	if err := e.save(ctx, f, after); err != nil {
		return nil, err
	}
	r.Changed = true
	r.say("Encrypted the new values in %s for %s", f.Shown, people(f.To))
	return r, nil
}

// save writes the new text, unless another process has changed the file meanwhile.
func (e Edit) save(ctx context.Context, f *store.File, text []byte) error {
	if err := f.Lock(ctx); err != nil {
		return e.keep(ctx, f, text, err)
	}
	defer f.Close()
	if !f.Unchanged() {
		return e.keep(ctx, f, text, fmt.Errorf("another process has changed %s meanwhile, and it was not overwritten", f.Shown))
	}
	if err := f.Write(ctx, text); err != nil {
		return e.keep(ctx, f, text, err)
	}
	return nil
}

// keep writes the text of the person, encrypted, beside the vars store.
func (e Edit) keep(ctx context.Context, f *store.File, text []byte, why error) error {
	path := strings.TrimSuffix(f.Path, store.Suffix) + ".edited" + store.Suffix
	shown := strings.TrimSuffix(f.Shown, store.Suffix) + ".edited" + store.Suffix
	if e.Store.Team != nil {
		shown = path
	}
	to := f.To
	if len(to) == 0 {
		to = e.Keys.Recipients
	}
	data, err := e.Keys.Seal(context.WithoutCancel(ctx), f.Shown, text, to)
	if err == nil {
		err = atomicfile.Write(path, data)
	}
	if err != nil {
		return errors.Join(why, fmt.Errorf("your text is lost: %w", err))
	}
	return fmt.Errorf("%w; your text is kept, encrypted, in %s: bootstrap secrets decrypt %s", why, shown, shown)
}

// edit returns the text that the editor leaves, which is valid.
func (e Edit) edit(ctx context.Context, f *store.File, text []byte) ([]byte, error) {
	e.removeStale()
	dir, where := e.folder()
	if dir == "" {
		return nil, fmt.Errorf("cannot make a folder for the text: %w", document.Cause(where))
	}
	remove := func() { _ = os.RemoveAll(dir) }
	defer remove()
	defer guard.AfterDone(ctx, remove)() // a second signal would end the process before
	lock, err := lockfile.Try(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	path := filepath.Join(dir, strings.TrimSuffix(filepath.Base(f.Path), store.Suffix))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, fmt.Errorf("cannot write the text to %s: %w", path, document.Cause(err))
	}
	if inMemory := e.Memory != "" && strings.HasPrefix(dir, e.Memory); inMemory {
		e.Say("Editing " + path + ", which is in memory only, and is removed afterwards")
	} else {
		e.Say("Editing " + path + ", which is on a disk and is removed afterwards: this machine has no " + e.Memory)
	}
	for {
		if err := e.open(ctx, path); err != nil {
			return nil, err
		}
		after, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the text back from %s: %w; nothing was changed", path, document.Cause(err))
		}
		wrong := document.CheckValues("the vars store", f.Shown, after)
		if wrong == nil || bytes.Equal(after, text) {
			return after, nil
		}
		again := false
		if e.Again != nil {
			if again, err = e.Again(ctx, wrong); err != nil {
				return nil, e.keep(ctx, f, after, err)
			}
		}
		if !again {
			return nil, e.keep(ctx, f, after, fmt.Errorf("%w\nnothing was changed", wrong))
		}
	}
}

// folder makes a folder that only this person can read, in memory if it can.
func (e Edit) folder() (dir string, err error) {
	for _, parent := range []string{e.Memory, ""} {
		if info, statErr := os.Stat(parent); parent != "" && (statErr != nil || !info.IsDir()) {
			continue
		}
		if dir, err = os.MkdirTemp(parent, folderName); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// removeStale removes the folders of runs that were killed.
func (e Edit) removeStale() {
	for _, parent := range slices.Compact([]string{e.Memory, os.TempDir()}) {
		old, _ := filepath.Glob(filepath.Join(parent, folderName+"*"))
		for _, dir := range old {
			if info, err := os.Lstat(dir); err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
				continue // its run may be about to lock it
			}
			if lock, err := lockfile.Try(filepath.Join(dir, ".lock")); err == nil && lock != nil {
				_ = os.RemoveAll(dir)
				lock.Close()
			}
		}
	}
}

// open runs the editor until it ends.
func (e Edit) open(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", e.Editor+` "$@"`, "sh", path)
	if runtime.GOOS == "windows" {
		words := strings.Fields(e.Editor)
		cmd = exec.CommandContext(ctx, words[0], append(words[1:], path)...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = e.Stdin, e.Stdout, e.Stderr, e.Env
	cmd.Cancel = func() error { process.Terminate(cmd.Process.Pid); return nil }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the editor %s failed: %w; nothing was changed", e.Editor, err)
	}
	return nil
}
