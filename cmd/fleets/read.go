package fleets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/ui"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/owner"
	"bootstrap/internal/printable"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
)

// read reads the fleet file and returns the options of a run.
func (a *fleetAsked) read(cmd *cobra.Command, c *cli.Console, path string) (rollout.Options, error) {
	c.Start()
	var opts rollout.Options
	home, err := c.BoshHome()
	if err != nil {
		return opts, err
	}
	self, err := os.Executable()
	if err != nil {
		return opts, fmt.Errorf("cannot find this program's own path: %w", err)
	}
	if err := c.FindDatabase(&a.database); err != nil {
		return opts, err
	}
	f, err := readFleet(cmd.Context(), c, path, a.inputs)
	if err != nil {
		return opts, err
	}
	env := environment.ForMembers(c.Env)
	if a.database != "" {
		env = append(env, "BOOTSTRAP_DATABASE="+a.database)
	}
	opts = rollout.Options{
		Fleet: f, Action: f.Update.Strategy, AllowEmpty: a.empty, Home: home, By: c.Holder(),
		Program: rollout.Program{Self: self, Env: env, Flags: a.members, Fleet: fleetArgs(f.Path, a.inputs)},
		Choice:  rollout.Choice{IncludeBlocked: a.blocked, Prune: a.prune},
	}
	opts.StatusFlags = flagsOf(a.members, statusFlags())
	if a.prune {
		opts.Program.DeleteFlags = append(flagsOf(a.members, deleteFlags()), "--yes")
	}
	given := func(flag string) bool { return strings.HasPrefix(flag, "--on-failure=") }
	if f.Update.OnFailure != "" && a.action == "" && !slices.ContainsFunc(a.members, given) {
		opts.Program.Flags = append(opts.Program.Flags, "--on-failure="+string(f.Update.OnFailure))
	}
	all := f.Members
	if a.action == fleet.DeleteStrategy {
		opts.Action, opts.Removed = a.action, a.removed
		if all, err = deletable(opts); err != nil {
			return opts, err
		}
	}
	for _, text := range a.only {
		s, err := fleet.ParseSelector(text)
		if err == nil {
			err = s.Check(all)
		}
		if err != nil {
			return opts, cli.WrongUsage(cmd, fmt.Errorf("--only: %w", err))
		}
		opts.Only = append(opts.Only, s)
	}
	if a.before != "" {
		if opts.CreatedBefore, err = time.Parse(time.RFC3339, a.before); err != nil {
			return opts, cli.WrongUsage(cmd, fmt.Errorf("--created-before: %q is not a time such as 2026-11-22T10:00:00Z", a.before))
		}
	}
	return opts, nil
}

// readFleet reads a fleet file and prints its warnings.
func readFleet(ctx context.Context, c *cli.Console, path string, inputs document.Options) (*fleet.Fleet, error) {
	f, err := fleet.Read(ctx, path, inputs, outside(c, path))
	if err != nil {
		return nil, err
	}
	c.Redactor.Add(f.Secrets...)
	c.Redactor.Name(append([]string{f.Path, path}, f.Names...)...)
	for _, m := range f.Members {
		c.Redactor.Name(m.Name, m.Manifest, m.State)
	}
	if len(f.Warnings) > 0 && !c.JSON() {
		out := c.Writer(c.Stderr)
		for _, w := range document.Problems(f.Warnings).Shortened() {
			ui.Warn(out, w.String())
		}
		_ = out.Flush() // there is no stream to report an error on
	}
	return f, nil
}

// outside returns how a fleet file's bootstrap.yml files and lists of members are read.
func outside(c *cli.Console, path string) fleet.Outside {
	doubt := owner.Doubt(path, c.Getenv)
	if doubt != "" {
		doubt += ": " + owner.Trust(path)
	}
	return fleet.Outside{Environment: findEnvironment(c, doubt == ""), Doubt: doubt, List: func(ctx context.Context, l source.List, passed []string) ([]byte, error) {
		config := source.Config{Environ: c.Env, Getenv: c.Getenv, PassEnv: passed}
		return config.ReadList(ctx, l)
	}}
}

// findEnvironment returns how the files bootstrap.yml of members are found: as bootstrap
// deploy does. trust says that the fleet file may name one of another user.
func findEnvironment(c *cli.Console, trust bool) fleet.FindEnvironment {
	return func(manifest, named string) (fleet.Environment, error) {
		f, err := environment.For(manifest, named, trust, c.Getenv)
		if err != nil || f == nil {
			return fleet.Environment{}, err
		}
		e := fleet.Environment{Path: f.Path, Files: f.Inputs()}
		for _, state := range f.Values("state") {
			e.State = state
		}
		if e.State, err = document.ExpandHome(e.State); err != nil {
			return fleet.Environment{}, fmt.Errorf("cannot find the home directory: %v", err)
		}
		for i, path := range e.Files {
			if e.Files[i], err = document.ExpandHome(path); err != nil {
				return fleet.Environment{}, fmt.Errorf("cannot find the home directory: %v", err)
			}
		}
		return e, nil
	}
}

// fleetPath returns the absolute path of a fleet file, which may be missing if its record
// exists.
func fleetPath(c *cli.Console, path string) (string, error) {
	c.Start()
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	c.Redactor.Name(path, absolute)
	_, err = os.Stat(absolute)
	if err != nil && !cli.Exists(rollout.Path(absolute)) {
		return "", &document.FileError{Err: fmt.Errorf("cannot read the fleet file %s: %w", path, document.Cause(err))}
	}
	return absolute, nil
}

// fleetArgs returns the arguments with which another command reads the same fleet file.
// Values of -v may be secrets and are left out: the command reports missing ones.
func fleetArgs(path string, inputs document.Options) string {
	args := []string{printable.ShellWord(path)}
	for _, of := range []struct {
		flag   string
		values []string
	}{{"-l", inputs.VarsFiles}, {"--var-file", inputs.VarFiles}, {"--vars-env", inputs.VarsEnv}} {
		for _, value := range of.values {
			if value != "-" {
				args = append(args, of.flag+" "+printable.ShellWord(value))
			}
		}
	}
	return strings.Join(args, " ")
}
