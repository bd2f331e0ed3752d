package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/mod/module"
)

func (r *release) noticePath(p platform) string {
	return filepath.Join(r.work, "NOTICE-"+p.String())
}

// legal matches the files of a module that must be distributed with the program.
var legal = regexp.MustCompile(`^(?i:licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences writes the notices of everything that a program embeds, and of the Go modules
// that are linked into it.
func (r *release) licences(p platform) error {
	info, err := buildinfo.ReadFile(r.path(p))
	if err != nil {
		return err
	}
	embedded, err := os.ReadFile(r.notice)
	if err != nil {
		return err
	}
	return create(r.noticePath(p), func(to io.Writer) error {
		if _, err := to.Write(embedded); err != nil {
			return err
		}
		errs := []error{texts(to, "Go, "+info.GoVersion, r.goroot)}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			name, err := module.EscapePath(m.Path)
			errs = append(errs, err, texts(to, m.Path+" "+m.Version, filepath.Join(r.modules, name+"@"+m.Version)))
		}
		return errors.Join(errs...)
	})
}

// texts writes the legal texts of a module, which must have one.
func texts(to io.Writer, name, dir string) error {
	entries, err := os.ReadDir(dir) // ReadDir sorts by name.
	if err != nil {
		return fmt.Errorf("cannot read the licence of %s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !legal.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		if _, err := fmt.Fprintf(to, "\n\n==== %s: %s\n\n%s", name, e.Name(), text); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return nil
}
