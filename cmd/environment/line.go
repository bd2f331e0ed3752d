package environment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/internal/owner"
	"bootstrap/manifest/document"
)

// FlagName is the name of the flag that names another file, or none.
const FlagName = "bootstrap-yml"

// AddFlag adds the flag that names another file, or none.
func AddFlag(f *pflag.FlagSet, path *string) {
	f.StringVar(path, FlagName, "", "take flags from this `FILE`, not from bootstrap.yml; empty: none")
}

// variables returns the variables of the process's environment for flags, by the name of
// the flag. They replace values of the file.
func variables() map[string]string {
	return map[string]string{"state": "BOOTSTRAP_STATE", "database": "BOOTSTRAP_DATABASE"}
}

// ForMembers returns the environment of processes for members of a fleet, each of which
// has a state of its own.
func ForMembers(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(setting string) bool {
		return strings.HasPrefix(setting, variables()["state"]+"=")
	})
}

// Line is a command line with the flags of its environment.
type Line struct {
	Args []string // all arguments
	File *File    // the file in use; nil: none
	// Typed is the typed argument for the manifest; empty: none.
	Typed string
	// Own is the typed value of the flag FlagName; nil: none.
	Own   *string
	given []Flag // flags that were not typed
	typed map[string]string
}

// Complete returns the command line, completed with the manifest and the flags of its
// environment. Flags of the file precede the typed ones, so that these replace single
// values. An error describes a mistake in the file.
func Complete(root *cobra.Command, args []string, getenv func(string) string) (Line, error) {
	args = FillIn(root, args)
	line := Line{Args: args}
	w, ok := scan(root, args)
	if !ok || w.missing != "" || w.empty() {
		return line, nil
	}
	return w.complete(line, getenv)
}

// CompleteWords is Complete for words that a shell asks about: the last one is
// incomplete. Mistakes are ignored.
func CompleteWords(root *cobra.Command, words []string, getenv func(string) string) []string {
	if len(words) == 0 {
		return words
	}
	before, last := words[:len(words)-1], words[len(words)-1:]
	w, ok := scan(root, before)
	// The manifest itself is completed, unless the word can be another argument.
	if !ok || w.missing == "" && w.first() == "" && !w.about.more && !strings.HasPrefix(last[0], "-") {
		return words
	}
	line, err := w.complete(Line{Args: before}, getenv)
	if err != nil {
		return words
	}
	return append(slices.Clone(line.Args), last...)
}

// Given returns how many of the values of a flag were not typed. They come first.
func (l *Line) Given(flag string) (n int) {
	for _, f := range l.given {
		if f.Name == flag {
			n++
		}
	}
	return n
}

// Untyped reports whether the flag has values, and none was typed.
func (l *Line) Untyped(flag string) bool {
	_, typed := l.typed[flag]
	return !typed && l.Given(flag) > 0
}

// Usual reports whether all operations and variables are those of the file.
func (l *Line) Usual() bool {
	return l.File != nil && !slices.ContainsFunc([]string{"ops-file", "cloud-config", "cloud-provider", "runtime-config", "release", "stemcell", "lock-file", "var", "var-file", "vars-file", "vars-env", "vars-store", "var-source"}, func(name string) bool {
		_, typed := l.typed[name]
		return typed
	})
}

// For returns a line that selects the same deployment for another command: if that takes
// several manifests, they are named.
func (l *Line) For(cmd *cobra.Command, manifest string) Line {
	line := *l
	if !aboutOf(cmd).several || l.File == nil || l.Typed == manifest {
		return line
	}
	if line.Typed = manifest; line.Own == nil && filepath.Join(filepath.Dir(manifest), FileName) != l.File.Path {
		line.Own = &l.File.Path
	}
	return line
}

// about describes the arguments of a command.
type about struct {
	manifest bool // true: one manifest, which the file can name
	several  bool // any number
	optional bool // none is an answer, too
	more     bool // others can follow
	state    bool // --state is enough
}

// manifestWord matches the manifest's part of a usage.
var manifestWord = regexp.MustCompile(`^[[{]*MANIFEST(\.\.\.)?( \| --state [A-Z]+\}|\])?`)

// aboutOf reads the arguments of a command from its usage.
func aboutOf(cmd *cobra.Command) about {
	_, words, _ := strings.Cut(cmd.Use, " ")
	found := manifestWord.FindString(words)
	rest := strings.ReplaceAll(words[len(found):], "[-- COMMAND...]", "")
	rest = regexp.MustCompile(`--[a-z-]+( [A-Z]+)?`).ReplaceAllString(rest, "")
	return about{
		manifest: found != "",
		several:  strings.Contains(found, "..."),
		optional: strings.HasPrefix(found, "["),
		more:     regexp.MustCompile(`[A-Z]`).MatchString(rest),
		state:    strings.Contains(found, "--state"),
	}
}

// words is a parsed command line.
type words struct {
	cmd     *cobra.Command
	about   about
	rest    []string          // words after the command
	typed   map[string]string // the last value of each flag
	at      []int             // indexes in rest of arguments that are not flags
	missing string            // the last word, if it is a flag without its value
}

// first returns the first argument if it can be a manifest; empty: none can.
func (w *words) first() string {
	if len(w.at) == 0 || !w.about.manifest {
		return ""
	}
	word := w.rest[w.at[0]]
	if w.about.more && !isPath(word) {
		return ""
	}
	return word
}

// empty reports whether the manifest is an empty word, such as an unset variable of a
// shell. That is a mistake: the file's manifest is not used.
func (w *words) empty() bool {
	return w.about.manifest && !w.about.more && len(w.at) > 0 && w.rest[w.at[0]] == ""
}

// isPath reports whether a word is a manifest, if it could also be a CID, the name of a
// variable, or the place of a state.
func isPath(word string) bool {
	ext := filepath.Ext(word)
	return word == "-" || ext == ".yml" || ext == ".yaml" || isRegular(word) || isRegular(filepath.Join(word, FileName))
}

// scan finds the command, its arguments and its flags, as cobra does later. It sets no
// values, because that can read standard input. ok is false if the command line is wrong,
// or the command uses no environment.
func scan(root *cobra.Command, args []string) (*words, bool) {
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Flags().Lookup(FlagName) == nil {
		return nil, false
	}
	cmd.InitDefaultHelpFlag()
	cmd.InheritedFlags() // adds them to those of the command
	w := &words{cmd: cmd, about: aboutOf(cmd), rest: rest, typed: map[string]string{}}
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		if arg == "--" {
			for i++; i < len(rest) && !strings.Contains(cmd.Use, "[-- "); i++ {
				w.at = append(w.at, i)
			}
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			w.at = append(w.at, i)
			continue
		}
		name, value, whole, ok := w.flag(arg)
		switch {
		case !ok || name == "help":
			return nil, false
		case !whole && i == len(rest)-1:
			w.missing = arg
		case !whole:
			i++
			value = rest[i]
		}
		w.typed[name] = value
	}
	return w, true
}

// flag reads an argument that is a flag, or several short ones. whole is false if the
// value of the last one is the next argument.
func (w *words) flag(arg string) (name, value string, whole, ok bool) {
	if long, found := strings.CutPrefix(arg, "--"); found {
		name, value, whole = strings.Cut(long, "=")
		f := w.cmd.Flags().Lookup(name)
		if f == nil {
			return name, "", false, false
		}
		return f.Name, value, whole || f.NoOptDefVal != "", true
	}
	for i := 1; i < len(arg); i++ {
		f := w.cmd.Flags().ShorthandLookup(arg[i : i+1])
		if f == nil {
			return "", "", false, false
		}
		name = f.Name
		w.typed[name] = ""
		if rest := arg[i+1:]; strings.HasPrefix(rest, "=") || f.NoOptDefVal == "" {
			return name, strings.TrimPrefix(rest, "="), rest != "", true
		}
	}
	return name, "", true, true
}

// complete finds the environment and completes the line with it.
func (w *words) complete(line Line, getenv func(string) string) (Line, error) {
	own, isOwn := w.typed[FlagName]
	if isOwn {
		line.Own = &own
	}
	line.typed, line.Typed = w.typed, w.first()
	_, state := w.typed["state"]
	var manifest string
	if !isOwn || own != "" {
		var err error
		if line.File, manifest, err = w.find(line.Typed, own, w.about.state && state && line.Typed == ""); err != nil {
			return line, err
		}
	}
	if line.File != nil && !isOwn {
		if err := trusted(line.File, getenv); err != nil {
			return line, err
		}
	}
	one := line.Typed != "" && (!w.about.several || len(w.at) == 1) || manifest != ""
	if line.File != nil && !isOwn && (line.Typed != "" || manifest != "") {
		line.given = append(line.given, Flag{FlagName, line.File.Path})
	}
	for _, f := range w.flags(line.File, getenv, line.Typed != "" || manifest != "") {
		if f.Name != "state" || one || w.about.state || w.about.optional && !w.about.several {
			line.given = append(line.given, f)
		}
	}
	if len(line.given) == 0 && manifest == "" {
		return line, nil
	}
	rest := slices.Clone(w.rest)
	line.Args = strings.Fields(w.cmd.CommandPath())[1:]
	for _, f := range line.given {
		line.Args = append(line.Args, "--"+f.Name+"="+f.Value)
	}
	switch {
	case manifest == "":
	case line.Typed != "":
		rest[w.at[0]] = manifest
	default:
		line.Args = append(line.Args, manifest)
	}
	line.Args = append(line.Args, rest...)
	return line, nil
}

// flags returns flags of the command that the person did not type: from the process's
// environment and from the file, which may be nil. For a command without a deployment,
// the file gives only the address ledger.
func (w *words) flags(file *File, getenv func(string) string, deployment bool) (list []Flag) {
	set := variables()
	single := map[string]bool{}
	for _, k := range table() {
		single[k.flag] = k.single()
	}
	usable := func(name string) bool {
		_, typed := w.typed[name]
		return w.cmd.Flags().Lookup(name) != nil && !(typed && single[name])
	}
	if value := getenv(set["state"]); value != "" && usable("state") && strings.Contains(w.cmd.Flags().Lookup("state").Usage, set["state"]) {
		list = append(list, Flag{"state", value})
	}
	if file == nil {
		return list
	}
	for _, f := range file.Flags {
		fromVariable := set[f.Name] != "" && getenv(set[f.Name]) != ""
		if usable(f.Name) && !fromVariable && (deployment || f.Name == "database") {
			list = append(list, f)
		}
	}
	return list
}

// find returns the file that applies to the command, and the manifest in it, if that
// replaces the argument; nil: no file applies. named is the argument for the manifest,
// and own the file that the person chose; both may be empty.
func (w *words) find(named, own string, stateOnly bool) (f *File, manifest string, err error) {
	folder := named == "" || isFolder(named)
	path := own
	switch {
	case own != "":
	case named == "-", stateOnly, w.about.several && len(w.at) > 1:
		return nil, "", nil
	case folder:
		path = filepath.Join(named, FileName)
	case filepath.Base(named) == FileName:
		path, folder = named, true
	default:
		path = filepath.Join(filepath.Dir(named), FileName)
	}
	if f, err = Read(path); err != nil || f == nil {
		if own != "" && err == nil {
			err = &document.FileError{Err: fmt.Errorf("cannot read the flags in %s: %w", own, whyNone(own))}
		}
		return nil, "", err
	}
	switch {
	case named == "" && (!w.about.manifest || w.about.optional && (w.about.several || f.Manifest == "")):
		return f, "", nil
	case folder && f.Manifest != "":
		return f, f.Manifest, nil
	case folder:
		return nil, "", fmt.Errorf("%s names no manifest: write manifest: PATH into it, or name the manifest on the command line", path)
	case own == "" && (f.Manifest != "" && !samePath(f.Manifest, named) || f.Manifest == "" && f.names(named)):
		return nil, "", nil
	}
	return f, "", nil
}

// trusted refuses a file of another user that the person has not named: it can name
// programs to run and the place of the state, and may be in a folder that others can
// write to.
func trusted(f *File, getenv func(string) string) error {
	why := owner.Doubt(f.Path, getenv)
	if why == "" {
		return nil
	}
	return &document.FileError{Err: fmt.Errorf("cannot use the flags in %s: %s: it can name programs to run; %s; --%s %s uses it once, --%s= leaves it out", f.Path, why, owner.Trust(f.Path), FlagName, f.Path, FlagName)}
}

// Here returns the file of this folder for commands without a manifest; nil: there is
// none.
func Here(getenv func(string) string) (*File, error) {
	f, err := Read(FileName)
	if err == nil && f != nil {
		err = trusted(f, getenv)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Values returns the values of a flag in the file.
func (f *File) Values(flag string) (list []string) {
	if f == nil {
		return nil
	}
	for _, given := range f.Flags {
		if given.Name == flag {
			list = append(list, given.Value)
		}
	}
	return list
}

// whyNone returns why Read found no flags in a file that the person chose.
func whyNone(path string) error {
	switch info, err := os.Stat(path); {
	case err != nil:
		return document.Cause(err)
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	}
	return errors.New("it has none of the keys of such a file, for example manifest or ops_files; see bootstrap schema environment")
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// For returns the file for commands about a manifest: named, or if that is empty the one
// that a command line with this manifest uses; nil: there is none. trust says that the person has
// named it, who may use a file of another user.
func For(manifest, named string, trust bool, getenv func(string) string) (*File, error) {
	w := words{about: about{manifest: true}}
	f, _, err := w.find(manifest, named, false)
	if err == nil && f != nil && (named == "" || !trust) {
		err = trusted(f, getenv)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Inputs returns the paths of the files with operations, variables and configs that the
// file names.
func (f *File) Inputs() (paths []string) {
	for _, flag := range []string{"ops-file", "cloud-config", "cloud-provider", "runtime-config", "vars-file"} {
		paths = append(paths, f.Values(flag)...)
	}
	for _, pair := range f.Values("var-file") {
		_, path, _ := strings.Cut(pair, "=")
		paths = append(paths, path)
	}
	return paths
}
