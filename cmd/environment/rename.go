package environment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/manifest/document"
)

// Renamed is a file with flags that names another vars store than before.
type Renamed struct {
	Path string // path of the file
	To   string // the new vars store as the file names it; empty: none
	text []byte
}

// storeLine matches the line of the vars store: the key, the value, and the rest.
var storeLine = regexp.MustCompile(`(?m)^(vars_store[ \t]*:[ \t]+)("[^"\n]*"|'[^'\n]*'|[^\s#'"{[&*|>!%@][^\n#]*?)([ \t]*(?: #[^\n]*)?\r?)$\n?`)

// Renames returns the files beside a vars store and in this folder that name it. In each,
// the vars store to replaces it, with the same part before the name; if to is empty, the
// key is removed. The rest of the files is unchanged.
func Renames(from, to string) (list []Renamed, err error) {
	expanded, err := document.ExpandHome(from)
	if err != nil {
		return nil, err
	}
	for _, path := range []string{FileName, filepath.Join(filepath.Dir(expanded), FileName)} {
		f, err := Read(path)
		if err != nil {
			return nil, err
		}
		named := func(r Renamed) bool { return samePath(r.Path, path) }
		if f == nil || slices.ContainsFunc(list, named) || !slices.ContainsFunc(f.Values("vars-store"), func(store string) bool { return samePath(store, expanded) }) {
			continue
		}
		r, err := f.renamed(strings.TrimPrefix(to, from), to == "")
		if err != nil {
			return nil, fmt.Errorf("cannot change vars_store in %s: %w; nothing was changed; write the key as a line of its own, vars_store: PATH", path, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func (f *File) renamed(end string, without bool) (r Renamed, err error) {
	real, err := filepath.EvalSymlinks(f.Path) // the target of a link is replaced, not the link
	if err != nil {
		return r, document.Cause(err)
	}
	text, err := os.ReadFile(real)
	if err != nil {
		return r, document.Cause(err)
	}
	found := storeLine.FindAllSubmatchIndex(text, -1)
	if len(found) != 1 {
		return r, errors.New("its place is not clear")
	}
	at := found[0]
	value := string(text[at[4]:at[5]])
	if quote := value[len(value)-1:]; quote == `"` || quote == "'" {
		end += quote
		value = value[:len(value)-1]
	}
	r = Renamed{Path: f.Path}
	if without {
		r.text = slices.Concat(text[:at[0]], text[at[1]:])
	} else {
		r.To = strings.Trim(value+end, `"'`)
		r.text = slices.Concat(text[:at[4]], []byte(value+end), text[at[5]:])
	}
	return r, r.check(f, without)
}

// check reads the new text and compares it with the old content.
func (r Renamed) check(before *File, without bool) error {
	after := reader{File: &File{Path: before.Path}, table: table(), dir: filepath.Dir(before.Path)}
	if err := document.Check(before.Path, r.text, after.read); err != nil {
		return err
	}
	want := slices.Clone(before.Flags)
	for i, flag := range want {
		if flag.Name == "vars-store" && !without {
			want[i].Value = flag.Value + filepath.Ext(r.To)
		}
	}
	if without {
		want = slices.DeleteFunc(want, func(flag Flag) bool { return flag.Name == "vars-store" })
	}
	if !slices.Equal(after.Flags, want) || after.Manifest != before.Manifest {
		return errors.New("its place is not clear")
	}
	return nil
}

// Write writes the file.
func (r Renamed) Write() error {
	real, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return err
	}
	return atomicfile.Write(real, r.text)
}
