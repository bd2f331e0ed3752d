// Package changed compares the rendered files of jobs with those of the running jobs, and
// shows the differences without secrets.
package changed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/internal/scratch"
)

// Case says which files are compared.
type Case struct {
	Folder  kept.Folder // folder of the deployment
	VM      string      // CID of the VM; empty: there is none
	Facts   plan.Facts
	Moves   bool // a new VM will have another address, which is unknown
	Secrets int  // number of secrets of the last deploy that the redactor knows

	// Archive is the path of the archive with the new files; if it is empty, Render
	// writes them to a folder.
	Archive string
	Render  func(ctx context.Context, dir string) error
	Redact  func(string) string
}

// Compare returns the files that differ from those of the running jobs; nil if this
// machine does not have those. note says why, or why the list is not exact.
func Compare(ctx context.Context, c Case) (list []plan.File, note string, err error) {
	applied, ok := c.Folder.Applied(kept.Current)
	switch {
	case c.VM == "":
		return nil, "there is no VM, so all files are new", nil
	case !ok || applied.VM != c.VM:
		return nil, "this machine has not kept the files of the last deploy: it was made on another machine, or by another tool", nil
	case c.Facts.Answers && c.Facts.Now.ConfigurationHash != applied.Spec.ConfigurationHash:
		return nil, "the last deploy failed, or ran on another machine", nil
	case c.Secrets == 0:
		return nil, "an older bootstrap made the last deploy, and did not record the secrets in its files", nil
	}
	old, err := inArchive(ctx, c.Folder.Rendered(kept.Current))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "this machine has not kept the files of the last deploy", nil
	}
	if err != nil {
		return nil, "", err
	}
	to, err := c.coming(ctx)
	if err != nil {
		return nil, "", err
	}
	return compare(old, to, c.Redact), c.inexact(), nil
}

func (c Case) inexact() string {
	switch {
	case c.Moves:
		return "the new VM's address is not known yet, so the files are rendered with that of the current VM"
	case !c.Facts.Answers:
		return "the agent does not answer, so the files are compared with those of the last deploy from this machine"
	}
	return ""
}

// coming returns the new files.
func (c Case) coming(ctx context.Context) (files, error) {
	if c.Archive != "" {
		return inArchive(ctx, c.Archive)
	}
	folder, err := scratch.New("", "plan")
	if err != nil {
		return nil, fmt.Errorf("cannot make a folder for rendered templates: %w", err)
	}
	list, err := files(nil), c.Render(ctx, folder.Path)
	if err == nil {
		list, err = inFolder(folder.Path)
	}
	// The folder is removed, because it contains secrets.
	return list, errors.Join(err, folder.Remove())
}

// compare returns the differences, sorted by job and path.
func compare(old, to files, redact func(string) string) []plan.File {
	all := maps.Clone(old)
	maps.Copy(all, to)
	list := []plan.File{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := old[name]
		is, has := to[name]
		f := plan.File{}
		f.Job, f.Path, _ = strings.Cut(name, "/")
		switch {
		case !had:
			f.Change = plan.FileNew
		case !has:
			f.Change = plan.FileRemoved
		case was.sum == is.sum && was.mode == is.mode:
			continue
		default:
			f.Change = plan.FileChanged
			if was.mode != is.mode {
				f.Mode = fmt.Sprintf("%04o -> %04o", was.mode, is.mode)
			}
			f.Diff, f.Hidden = difference(was, is, redact)
		}
		list = append(list, f)
	}
	return list
}

// difference returns how the contents differ, or why the difference is not shown.
func difference(was, is file, redact func(string) string) (diff, hidden string) {
	switch {
	case was.sum == is.sum:
		return "", ""
	case was.data == nil || is.data == nil:
		return "", fmt.Sprintf("the file is too large to compare: %d bytes, and then %d", was.size, is.size)
	case binary(was.data) || binary(is.data):
		return "", "the file is not text"
	}
	return lines(string(was.data), string(is.data), redact), ""
}

func binary(data []byte) bool { return bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) }
