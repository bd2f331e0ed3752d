// Package scaffold writes the files of a new environment: a manifest, its operations,
// the files with its values and bootstrap.yml.
package scaffold

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/printable"
	"bootstrap/manifest/document"
)

// Purposes that the program treats differently.
const (
	director = "director"
	release  = "release"
)

// providers lists the providers. Each has a template and a page in docs.
func providers() []string {
	return []string{"local", "docker", "aws", "gcp", "azure", "vsphere", "openstack", "incus"}
}

// purposes lists the purposes of a VM.
func purposes() []string { return []string{release, "jumpbox", director} }

// Request describes the environment that a person wants.
type Request struct {
	Dir      string // folder for the files; it may not exist yet
	Provider string
	Purpose  string
	Name     string   // name of the deployment; empty: it is chosen
	Release  string   // folder, archive or URL; empty: an example is written
	SHA1     string   // multi-digest of the release at a URL
	Jobs     []string // jobs of the release
	Vars     []string // NAME=VALUE
	VarFiles []string // NAME=PATH
	Mirror   string   // URL to fetch from, in place of raw.githubusercontent.com
	Force    bool     // overwrite files
	Manifest string   // path of the manifest of a Director; empty: one is written
	// OwnNetwork is the kind of a network of their own that several VMs of this machine can
	// have; empty: they share this machine's.
	OwnNetwork string
	// Incomplete writes files even if values are missing.
	Incomplete bool

	values map[string]string // values of the settings
	files  map[string]string // paths, for settings of the kind file
	found  *artifact.Release // the release at Release; nil: the example
	shift  int               // number to add to proposed ports of this machine
	hide   func(secrets ...string)
}

// Source reads the files of a request.
type Source struct {
	// Release reads a release: a file:// URL, or another with its digest.
	Release func(ctx context.Context, url, digest string) (*artifact.Release, error)
	// Fetch returns the file at a URL if it has that digest, "sha256:HEX".
	Fetch func(ctx context.Context, url, digest string) ([]byte, error)
	// Ports is true if free ports of this machine are proposed. Home is ~/.bosh, which
	// records the ports of deployed environments; empty: unknown.
	Ports bool
	Home  string
}

// Result lists the written files.
type Result struct {
	Dir     string   `json:"dir"`
	Files   []string `json:"files"`             // paths in Dir
	Missing []string `json:"missing,omitempty"` // names of variables without a value
	Note    string   `json:"note,omitempty"`
	Next    []string `json:"next"` // commands
}

// Text returns the result for people.
func (r *Result) Text() string {
	var b strings.Builder
	b.WriteString("Wrote:\n")
	for _, name := range r.Files {
		b.WriteString("  " + filepath.Join(r.Dir, filepath.FromSlash(name)) + "\n")
	}
	if len(r.Missing) > 0 {
		b.WriteString("Give these a value first, in vars.yml, secrets.yml or bootstrap.yml:\n  " + strings.Join(r.Missing, "\n  ") + "\n")
	}
	if r.Note != "" {
		b.WriteString(r.Note + "\n")
	}
	b.WriteString("Next:\n  " + strings.Join(r.Next, "\n  ") + "\n")
	return b.String()
}

// requestError describes a mistake in a request.
type requestError struct{ error }

func refuse(format string, args ...any) error { return &requestError{fmt.Errorf(format, args...)} }

// MissingError lists values that the person must give.
type MissingError struct {
	Flags   []string
	Secrets bool // among the values
}

func (e *MissingError) Error() string {
	text := "there is no terminal to ask on; give " + strings.Join(e.Flags, " ") +
		"; --incomplete writes the files without values, to be filled in later"
	if e.Secrets {
		text += ", so that no secret is in a command line, which others can see"
	}
	return text
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_]*$`)

// prepare reads the release of the request, and completes the request.
func (r *Request) prepare(ctx context.Context, from Source) error {
	switch {
	case r.Provider == "local" && r.Purpose == director:
		return refuse("a Director creates VMs itself, and cannot use the CPI inside this program: choose --provider docker for a Director on this machine, or a cloud")
	case r.Purpose != release && (r.Release != "" || len(r.Jobs) > 0 || r.SHA1 != ""):
		return refuse("--release, --job and --sha1 are for --purpose release, and not for %s", r.Purpose)
	case r.Purpose != director && r.Mirror != "":
		return refuse("--mirror is for --purpose director, and not for %s", r.Purpose)
	case r.Release == "" && (len(r.Jobs) > 0 || r.SHA1 != ""):
		return refuse("--job and --sha1 are for a release: name it with --release")
	}
	if err := r.readRelease(ctx, from); err != nil {
		return err
	}
	if r.Name == "" {
		r.Name = r.Purpose
		if r.Purpose == release {
			r.Name = r.releaseName()
		}
	}
	if !validName.MatchString(r.Name) {
		return refuse("the name %q is not possible: use letters, digits, - and _", r.Name)
	}
	if err := r.readValues(); err != nil {
		return err
	}
	if from.Ports {
		r.choosePorts(ctx, from.Home)
	}
	return nil
}

// readValues reads the values of --var and --var-file, which must be for settings of this
// provider.
func (r *Request) readValues() error {
	r.values, r.files = map[string]string{}, map[string]string{}
	known := map[string]*setting{}
	for _, s := range r.settings() {
		known[s.name] = s
	}
	check := func(name, flag string, ofFile bool) error {
		s, found := known[name]
		switch {
		case !found && len(known) == 0:
			return refuse("%s %s: nothing has to be given for %s and %s", flag, name, r.Provider, r.Purpose)
		case !found:
			return refuse("%s %s: there is no such variable for %s and %s, only %s", flag, name, r.Provider, r.Purpose, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case (s.kind == file) != ofFile:
			return refuse("%s %s: give this variable with %s", flag, name, flagOf(s))
		}
		return nil
	}
	for _, pair := range r.Vars {
		name, value, _ := strings.Cut(pair, "=")
		if err := check(name, "--var", false); err != nil {
			return err
		}
		if err := known[name].check(value); err != nil {
			return refuse("--var %w", err)
		}
		r.values[name] = value
	}
	for _, pair := range r.VarFiles {
		name, path, _ := strings.Cut(pair, "=")
		if err := check(name, "--var-file", true); err != nil {
			return err
		}
		if err := r.setFile(name, path); err != nil {
			return err
		}
	}
	return nil
}

// setFile sets the file of a setting, which must exist.
func (r *Request) setFile(name, path string) error {
	expanded, err := document.ExpandHome(path)
	if err == nil {
		expanded, err = filepath.Abs(expanded)
	}
	if err != nil {
		return refuse("%s: cannot find %s: %w", name, path, err)
	}
	if info, err := os.Stat(expanded); err != nil {
		return refuse("%s: cannot read the file: %w", name, err)
	} else if info.IsDir() {
		return refuse("%s: %s is a folder; the variable needs a file", name, path)
	}
	r.files[name] = expanded
	return nil
}

// flagOf returns the flag for the value of a setting.
func flagOf(s *setting) string {
	if s.kind == file {
		return "--var-file " + s.name + "=PATH"
	}
	return "--var " + s.name + "=VALUE"
}

// missing returns the settings that need a value and have none.
func (r *Request) missing() (all []*setting) {
	for _, s := range r.settings() {
		if s.kind != optional && r.values[s.name] == "" && r.files[s.name] == "" {
			all = append(all, s)
		}
	}
	return all
}

// fillIn sets the proposed values of settings without a value.
func (r *Request) fillIn() {
	for _, s := range r.settings() {
		if _, given := r.values[s.name]; !given {
			r.values[s.name] = r.proposed(s)
		}
	}
}

// Run writes the files of a request if all values are given, or if it may be incomplete.
func (r *Request) Run(ctx context.Context, from Source) (*Result, error) {
	if lacking := r.missing(); len(lacking) > 0 && !r.Incomplete {
		e := &MissingError{}
		for _, s := range lacking {
			e.Flags = append(e.Flags, flagOf(s))
			e.Secrets = e.Secrets || s.kind == secret
		}
		return nil, e
	}
	for _, s := range r.settings() {
		if s.kind == secret {
			r.hide(r.values[s.name])
		}
	}
	all, err := r.output(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := r.write(all); err != nil {
		return nil, err
	}
	result := &Result{Dir: r.Dir}
	for _, f := range all {
		result.Files = append(result.Files, f.path)
	}
	if !slices.Contains(result.Files, ignored) {
		result.Note = ignored + " exists and stays as it is: keep creds.yml, creds.yml.previous, secrets.yml and private keys out of git"
	}
	for _, s := range r.missing() {
		result.Missing = append(result.Missing, s.name)
	}
	at := ""
	if filepath.Clean(r.Dir) != "." {
		at = " " + printable.ShellWord(r.Dir)
	}
	result.Next = []string{"bootstrap validate" + at}
	if len(result.Missing) == 0 {
		result.Next = append(result.Next, "bootstrap deploy"+at)
		if slices.ContainsFunc(result.Files, func(f string) bool { return strings.HasPrefix(f, example+"/") }) {
			result.Next = append(result.Next, "curl http://"+net.JoinHostPort(cmp.Or(r.values["external_ip"], r.values["internal_ip"]), r.examplePort())+"/")
		}
	}
	return result, nil
}
