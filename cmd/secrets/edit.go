package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/process"
	"bootstrap/internal/regular"
	"bootstrap/internal/scratch"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/document"
	"bootstrap/manifest/store"
)

// Edit has the arguments of bootstrap secrets edit.
type Edit struct {
	Store          Place
	Keys           *sealed.Keys
	Editor         string // command of a shell
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Memory         string // folder for files in memory; need not exist
	Say            func(message string)
	// Leave(true) leaves Ctrl-C, and other first signals, to the editor, until
	// Leave(false).
	Leave func(bool)
	// Again shows the mistake and asks whether to edit again; nil: questions are
	// impossible.
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
		r.say("Nothing was changed. (A graphical editor needs a flag that makes bootstrap wait for it, such as code --wait.)")
		return r, nil
	}
	if err := e.save(ctx, f, after); err != nil {
		return nil, err
	}
	r.Changed = true
	r.say("Encrypted the new values in %s for %s", f.Shown, people(f.To))
	return r, nil
}

// save writes the new text, unless another process has changed the file since it was read.
func (e Edit) save(ctx context.Context, f *store.File, text []byte) error {
	if err := f.Lock(ctx); err != nil {
		return e.keep(ctx, f, text, "", err)
	}
	defer f.Close()
	if !f.Unchanged() {
		return e.keep(ctx, f, text, "", fmt.Errorf("another process has changed %s during the edit, and it was not overwritten", f.Shown))
	}
	if err := f.Write(ctx, text); err != nil {
		return e.keep(ctx, f, text, "", err)
	}
	return nil
}

// edit returns the valid text that the editor leaves. However it ends, no plain text is
// left, and no text of the person is lost.
func (e Edit) edit(ctx context.Context, f *store.File, text []byte) ([]byte, error) {
	ctx, heed := e.unstopped(ctx)
	defer heed()
	scratch.Sweep(e.Memory, os.TempDir()) // removes the files of killed runs
	dir, where := e.folder()
	if dir == "" {
		return nil, fmt.Errorf("cannot make a folder for the text: %w", document.Cause(where))
	}
	defer func() { _ = os.RemoveAll(dir) }()
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
	return e.untilValid(ctx, f, path, text)
}

// untilValid opens the editor until it leaves a valid text.
func (e Edit) untilValid(ctx context.Context, f *store.File, path string, text []byte) ([]byte, error) {
	for {
		failed := e.open(ctx, path)
		after, err := editedText(path)
		switch {
		case failed != nil && err == nil && bytes.Equal(after, text):
			return nil, e.keepRests(ctx, f, path, failed)
		case failed != nil && err == nil:
			return nil, e.keepRests(ctx, f, path, e.keep(ctx, f, after, "", failed))
		case failed != nil:
			return nil, e.keepRests(ctx, f, path, errors.Join(failed, err))
		case err != nil:
			return nil, err
		}
		wrong := document.CheckValues("the vars store", f.Shown, after)
		if wrong == nil || bytes.Equal(after, text) {
			if ctx.Err() != nil && !bytes.Equal(after, text) {
				return nil, e.keep(ctx, f, after, "", context.Cause(ctx))
			}
			return after, nil
		}
		again := false
		if e.Again != nil {
			e.leave(false)
			again, err = e.Again(ctx, wrong)
			e.leave(true)
			if err != nil {
				return nil, e.keep(ctx, f, after, "", err)
			}
		}
		if !again {
			return nil, e.keep(ctx, f, after, "", fmt.Errorf("%w\nnothing was changed", wrong))
		}
	}
}

// editedText returns the text in the file that the editor has closed.
func editedText(path string) ([]byte, error) {
	const nothing = "; nothing was changed"
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the text back from %s: %w"+nothing, path, document.Cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, store.MaxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the text back from %s: %w"+nothing, path, document.Cause(err))
	case len(data) > store.MaxSize:
		return nil, fmt.Errorf("cannot read the text back from %s: it is larger than the limit of %d MiB, and is not kept"+nothing, path, store.MaxSize>>20)
	}
	return data, nil
}

func (e Edit) leave(on bool) {
	if e.Leave != nil {
		e.Leave(on)
	}
}

// unstopped returns a context that ends with a signal that ends the program, but not with
// the keys Ctrl-C and Ctrl-\, which are for the editor. heed ends that.
func (e Edit) unstopped(ctx context.Context) (_ context.Context, heed func()) {
	ctx, cancel := context.WithCancel(ctx)
	e.leave(true)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGABRT) // otherwise the signal would end the process
	guard.Go(ctx, func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGABRT {
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		e.leave(false)
		cancel()
	}
}

// folder makes a folder that only this person can read, in memory if possible.
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

// shellSigns are characters for which a command needs a shell.
const shellSigns = "|&;<>()$`\\\"'\t\n*?[#~=%"

// command returns the command of the editor. It uses a shell only if necessary, so that
// the editor itself gets the signal that ends it; Ctrl-C does not end the shell.
func (e Edit) command(path string) *exec.Cmd {
	words := strings.Fields(e.Editor)
	if runtime.GOOS == "windows" || !strings.ContainsAny(e.Editor, shellSigns) && len(words) > 0 {
		return exec.Command(words[0], append(words[1:], path)...) // #nosec G204 -- the editor that the person named
	}
	return exec.Command("sh", "-c", "trap : INT QUIT\n"+e.Editor+` "$@"`, "sh", path) // #nosec G204 -- the editor that the person named
}

// open runs the editor until it ends.
func (e Edit) open(ctx context.Context, path string) error {
	const grace = 5 * time.Second
	cmd := e.command(path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = e.Stdin, e.Stdout, e.Stderr, e.Env
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the editor %s failed: %w; nothing was changed", e.Editor, err)
	}
	stop := guard.AfterDone(ctx, func() {
		for _, pid := range below(cmd.Process.Pid, process.Usages()) {
			if id, runs := process.Identify(pid); runs {
				id.Terminate() // the child for which a shell waits
			}
		}
		process.Terminate(cmd.Process)
		late := time.NewTimer(grace)
		defer late.Stop()
		<-late.C
		_ = cmd.Process.Kill() // it has ignored the signal
	})
	err := cmd.Wait()
	stop()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("the editor %s failed: %w; nothing was changed", e.Editor, err)
	}
	return nil
}

// below returns the descendants of a process.
func below(pid int, all map[int]process.Usage) (list []int) {
	for child, u := range all {
		if u.Parent == pid && child != pid {
			list = append(append(list, child), below(child, all)...)
		}
	}
	return list
}

// rests returns further files of the editor next to the text, such as vim's swap file,
// which has typed text that was not saved.
func rests(path string) (list []string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		name := filepath.Join(filepath.Dir(path), entry.Name())
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && info.Size() > 0 && name != path && entry.Name() != ".lock" {
			list = append(list, name)
		}
	}
	return list
}

// keepRests keeps these files if the editor was killed.
func (e Edit) keepRests(ctx context.Context, f *store.File, path string, why error) error {
	const most = 4
	list := rests(path)
	for _, rest := range list[:min(most, len(list))] {
		data, err := editedText(rest)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
			continue
		}
		if err != nil {
			why = errors.Join(why, err)
			continue
		}
		why = e.keep(ctx, f, data, filepath.Base(rest), why)
	}
	return why
}
