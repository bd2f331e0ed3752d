package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"bootstrap/manifest/document"
)

// Read reads and checks the fleet file at path, and fills in its variables from
// opts, whose operations, cloud config and vars store are those of members and
// are not used. The error is a *document.Problems if the content of the file or
// of a file in opts is wrong.
func Read(path string, opts document.Options) (*Fleet, error) {
	if path == "-" {
		return nil, errors.New("cannot read a fleet file from standard input: write it to a file, beside which a run can be resumed")
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot find the absolute path of the fleet file %s: %v", path, err)
	}
	opts.Ops, opts.CloudConfigs, opts.VarsStore, opts.Generate = nil, nil, "", document.Refuse
	r := reader{fleet: &Fleet{Path: absolute, Update: defaults()}, dir: filepath.Dir(absolute)}
	d, err := document.Read(path, opts, r.read)
	if err != nil {
		return nil, err
	}
	r.fleet.Secrets, r.fleet.Names, r.fleet.Warnings = d.Secrets().Sorted(), d.Names(), d.Warnings
	return r.fleet, nil
}

// reader reads the document into the fleet and reports problems.
type reader struct {
	fleet *Fleet
	dir   string // of the fleet file
}

func (r *reader) read(top document.Value) {
	if !top.Map() {
		return
	}
	base := filepath.Base(r.fleet.Path)
	r.fleet.Name = strings.TrimSuffix(base, filepath.Ext(base))
	if text, ok := top.Get("name").Text(); ok {
		r.fleet.Name = text
	}
	members := top.Get("members")
	if members.Len() == 0 {
		members.Fail("must contain at least one member")
	}
	for _, item := range members.Items() {
		r.member(item)
	}
}

func (r *reader) member(v document.Value) {
	if !v.Map() {
		return
	}
	m := Member{Pos: v.Position()}
	manifest, ok := v.Get("manifest").Required("the path of the member's manifest")
	if !ok {
		return
	}
	m.Manifest = r.path(manifest)
	if m.Name, ok = v.Get("name").Text(); !ok {
		base := filepath.Base(m.Manifest)
		if m.Name = strings.TrimSuffix(base, filepath.Ext(base)); m.Name == "manifest" {
			m.Name = filepath.Base(filepath.Dir(m.Manifest))
		}
	}
	if text, ok := v.Get("state").Text(); ok {
		m.State = r.path(text)
	}
	if vars := v.Get("vars").Properties(); len(vars) > 0 {
		m.Vars, _ = json.Marshal(vars)
	}
	r.fleet.Members = append(r.fleet.Members, m)
}

// path returns the absolute path of a file that the fleet file names.
func (r *reader) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// isName reports whether a text is the name of a member: it becomes part of
// file names and arguments.
func isName(text string) bool {
	return len(text) <= longestName && plainName.MatchString(text) && text != "outdated" && text != "failed"
}

const longestName = 100
