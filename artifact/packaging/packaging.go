// Package packaging runs the packaging script of a release's package: for the
// CPI on this machine, and for the embedded agent on its VM.
package packaging

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"bootstrap/internal/process"
	"bootstrap/internal/removal"
)

// Script is one run of a packaging script. Folders may be relative to the current
// directory.
type Script struct {
	Name, Version string
	// Source is the folder with the unpacked package, and the script's working directory.
	// Its parent must be writable and should not contain "src", because scripts create
	// that folder there.
	Source string
	// Target is the folder that the script installs into; it is created.
	Target string
	// Packages is the folder in which the package's dependencies are installed.
	Packages string
	// Env has additional variables ("NAME=value", for example proxies). They
	// override the standard ones, but not the BOSH_ variables.
	Env []string
	// Log is the file (0600) for all output; empty: the output is not kept.
	Log string
	// Path is the PATH of the script; empty: DefaultPath.
	Path string
	// Temp is the parent of the script's HOME and TMPDIR; empty: os.TempDir.
	Temp string
	// Optional allows a package without a packaging script, as on a VM; a CPI
	// package must have one.
	Optional bool
}

// DefaultPath is the PATH of a packaging script: the system's folders, and on macOS also
// the folders of Homebrew, where compilers and libraries are installed.
func DefaultPath() string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if runtime.GOOS == "darwin" {
		path = "/opt/homebrew/bin:/opt/homebrew/sbin:" + path
	}
	return path
}

// Run runs `bash -x packaging` in a clean environment and waits for it. The script
// and all that it started are killed when ctx ends, when the script itself ends, and
// when this process dies. A failed script is an *Error, which wraps the cause if ctx
// ended.
func Run(ctx context.Context, s Script) error {
	if err := s.resolve(); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(s.Source, "packaging"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.Optional:
		return os.MkdirAll(s.Target, 0o755)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot compile package '%s': it has no file \"packaging\" (looked in %s)", s.Name, s.Source)
	case err != nil:
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("cannot compile package '%s': %s is not a file", s.Name, filepath.Join(s.Source, "packaging"))
	}
	bash, err := findBash(s.Path)
	if err != nil {
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	}
	if err := os.MkdirAll(s.Target, 0o755); err != nil {
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	}
	temp, err := os.MkdirTemp(s.Temp, "packaging-")
	if err != nil {
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	}
	err = s.run(ctx, bash, temp)
	if rerr := removal.Tree(temp); err == nil && rerr != nil {
		err = fmt.Errorf("cannot remove the temporary files of package '%s': %w", s.Name, rerr)
	}
	return err
}

func (s *Script) resolve() error {
	for _, dir := range []*string{&s.Source, &s.Target, &s.Packages, &s.Temp, &s.Log} {
		if *dir == "" {
			continue
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
		}
		*dir = abs
	}
	if s.Name == "" || s.Source == "" || s.Target == "" {
		return fmt.Errorf("cannot compile package '%s': name, source and target must be given", s.Name)
	}
	if s.Path == "" {
		s.Path = DefaultPath()
	}
	return nil
}

// run starts the script with its home below temp.
func (s *Script) run(ctx context.Context, bash, temp string) error {
	log, err := s.openLog(temp)
	if err != nil {
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	}
	defer log.Close()
	env, err := s.env(temp)
	if err != nil {
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	}
	status, err := process.Tied{
		Args: []string{bash, "-x", "packaging"},
		Dir:  s.Source,
		Env:  env,
		Out:  log,
	}.Run(ctx)
	if err != nil && status == 0 {
		return fmt.Errorf("cannot compile package '%s': %w", s.Name, err)
	}
	if ctx.Err() == nil && status == 0 {
		return nil
	}
	failed := &Error{Package: s.Name, ExitStatus: status, Log: s.Log, Err: err}
	if ctx.Err() != nil {
		failed.Err = context.Cause(ctx)
	}
	failed.Tail, _ = tail(log, tailLines)
	return failed
}

func (s *Script) openLog(temp string) (*os.File, error) {
	name := s.Log
	if name == "" {
		name = filepath.Join(temp, "packaging.log")
	} else if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := log.Chmod(0o600); err != nil {
		log.Close()
		return nil, err
	}
	return log, nil
}

// env returns the script's whole environment.
func (s *Script) env(temp string) ([]string, error) {
	home, tmp := filepath.Join(temp, "home"), filepath.Join(temp, "tmp")
	for _, dir := range []string{home, tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	lang := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		lang = "en_US.UTF-8"
	}
	env := []string{"PATH=" + s.Path, "HOME=" + home, "TMPDIR=" + tmp, "LANG=" + lang}
	env = append(env, s.Env...)
	return append(env,
		"BOSH_COMPILE_TARGET="+s.Source,
		"BOSH_INSTALL_TARGET="+s.Target,
		"BOSH_PACKAGE_NAME="+s.Name,
		"BOSH_PACKAGE_VERSION="+s.Version,
		"BOSH_PACKAGES_DIR="+s.Packages,
	), nil
}

// findBash looks for bash in the PATH of the script, not in that of this process.
func findBash(path string) (string, error) {
	for dir := range strings.SplitSeq(path, string(os.PathListSeparator)) {
		if !filepath.IsAbs(dir) {
			continue
		}
		name := filepath.Join(dir, "bash")
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return name, nil
		}
	}
	return "", fmt.Errorf("bash is missing (looked in %s): install it", path)
}
