package environment

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
)

// Renamed is a file with flags in which a value is replaced.
type Renamed struct {
	Path string // path of the file
	To   string // the new value as the file names it; empty: none
	text []byte
}

// line matches the line of a key in a file: the key, the value, and the rest.
func line(key string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(` + key + `[ \t]*:[ \t]+)("[^"\n]*"|'[^'\n]*'|[^\s#'"{[&*|>!%@][^\n#]*?)([ \t]*(?: #[^\n]*)?\r?)$\n?`)
}

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
		change := replacement{file: f, key: "vars_store", flag: "vars-store", remove: to == "", value: func(old string) string { return old + strings.TrimPrefix(to, from) }}
		r, err := change.make()
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// NewStateKey returns the file in this folder if it names a state key; the new one replaces
// it. The list is empty if there is none.
func NewStateKey(from, to string) (list []Renamed, err error) {
	f, err := Read(FileName)
	if err != nil || f == nil || !slices.Contains(f.Values("state-key"), from) {
		return nil, err
	}
	r, err := replacement{file: f, key: "state_key", flag: "state-key", value: func(string) string { return to }}.make()
	if err != nil {
		return nil, err
	}
	return []Renamed{r}, nil
}

// replacement is a new value of a key in a file.
type replacement struct {
	file      *File
	key, flag string
	remove    bool                    // the key is removed
	value     func(old string) string // returns the new value
}

// make returns the file with the new value.
func (c replacement) make() (Renamed, error) {
	r, err := c.replaced()
	if err != nil {
		return r, fmt.Errorf("cannot change %s in %s: %w; nothing was changed; write the key as a line of its own, %s: VALUE", c.key, c.file.Path, err, c.key)
	}
	return r, nil
}

func (c replacement) replaced() (r Renamed, err error) {
	real, err := filepath.EvalSymlinks(c.file.Path) // the target of a link is replaced, not the link
	if err != nil {
		return r, document.Cause(err)
	}
	text, err := regular.Read(real)
	if err != nil {
		return r, document.Cause(err)
	}
	found := line(c.key).FindAllSubmatchIndex(text, -1)
	if len(found) != 1 {
		return r, errors.New("its place is not clear")
	}
	at := found[0]
	value, quote := string(text[at[4]:at[5]]), ""
	if q := value[len(value)-1:]; q == `"` || q == "'" {
		quote, value = q, strings.Trim(value, q)
	}
	r = Renamed{Path: c.file.Path}
	if c.remove {
		r.text = slices.Concat(text[:at[0]], text[at[1]:])
	} else {
		r.To = c.value(value)
		r.text = slices.Concat(text[:at[4]], []byte(quote+r.To+quote), text[at[5]:])
	}
	return r, c.check(r.text)
}

// check reads the new text and compares it with the old content.
func (c replacement) check(text []byte) error {
	after := reader{File: &File{Path: c.file.Path}, table: table(), dir: filepath.Dir(c.file.Path)}
	if err := document.Check(c.file.Path, text, after.read); err != nil {
		return err
	}
	want := slices.Clone(c.file.Flags)
	if c.remove {
		want = slices.DeleteFunc(want, func(flag Flag) bool { return flag.Name == c.flag })
	}
	for i, flag := range want {
		if flag.Name == c.flag {
			want[i].Value = c.value(flag.Value)
		}
	}
	if !slices.Equal(after.Flags, want) || after.Manifest != c.file.Manifest {
		return errors.New("its place is not clear")
	}
	return nil
}

// Write writes the file, which keeps its mode: others may read it.
func (r Renamed) Write() error {
	real, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		return err
	}
	return atomicfile.Update(real, r.text)
}
