package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/exit"
	"bootstrap/cmd/values"
	"bootstrap/internal/spelling"
	"bootstrap/state/file"
)

// WrongUsage wraps err as an error of the command line. If a folder is named in place of
// a manifest, the error is about the manifest.
func WrongUsage(cmd *cobra.Command, err error) error {
	if _, ok := errors.AsType[*file.FolderError](err); ok {
		return err
	}
	command := "bootstrap"
	if cmd != nil {
		command = cmd.CommandPath()
	}
	return &exit.UsageError{Err: err, Command: command}
}

// ShortPath returns the command without the program's name: "state rm".
func ShortPath(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")
}

// Form returns the usage of the command: "bootstrap deploy MANIFEST".
func Form(cmd *cobra.Command) string {
	if cmd.HasParent() {
		return cmd.Parent().CommandPath() + " " + cmd.Use
	}
	return cmd.Use
}

// OneManifest requires exactly one manifest.
func OneManifest(cmd *cobra.Command, args []string) error { return ManifestAnd(cmd, args, 1) }

// ManifestAnd requires a manifest and allows at most max other arguments.
func ManifestAnd(cmd *cobra.Command, args []string, max int) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s needs a manifest: %s%s", ShortPath(cmd), Form(cmd), beginning(cmd))
	case args[0] == "":
		return errors.New("no manifest was named (the argument is empty)")
	case len(args) > max:
		return TooMany(cmd, args)
	}
	return nil
}

// ManifestOrState requires a manifest or --state, for commands that need only
// the state file on the machine that deployed.
func ManifestOrState(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && (cmd.Flags().Changed("state") || cmd.Flags().Changed("record")) {
		return NoInputs(cmd)
	}
	if len(args) == 0 {
		return fmt.Errorf("%s needs a manifest, or the state file: %s%s", ShortPath(cmd), Form(cmd), beginning(cmd))
	}
	return OneManifest(cmd, args)
}

// beginning says how to name the manifest of a folder without typing it.
func beginning(cmd *cobra.Command) string {
	if cmd.Flags().Lookup("bootstrap-yml") == nil {
		return ""
	}
	return "; or have it named by a bootstrap.yml in this folder: bootstrap init writes both"
}

// NoInputs refuses flags for operations, a cloud config and variables if no
// manifest is named.
func NoInputs(cmd *cobra.Command) error {
	for _, name := range []string{"ops-file", "cloud-config", "cloud-provider", "runtime-config", "release", "stemcell", "lock-file", "var", "var-file", "vars-file", "vars-env", "vars-store", "var-source"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for a manifest, and none is named: bootstrap %s MANIFEST", name, ShortPath(cmd))
		}
	}
	return nil
}

// NoArgs refuses arguments, for commands without any, or with subcommands only.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasAvailableSubCommands() {
		return NoSuchCommand(cmd, args[0])
	}
	return TooMany(cmd, args)
}

// TooMany reports too many arguments without repeating them: one of them may be
// the value of a variable.
func TooMany(cmd *cobra.Command, args []string) error {
	if cmd.Args == nil || !strings.Contains(cmd.Use, " ") {
		return fmt.Errorf("%s takes no arguments", ShortPath(cmd))
	}
	text := fmt.Sprintf("%s was given %d arguments, which are too many: %s", ShortPath(cmd), len(args), Form(cmd))
	if cmd.Flags().Lookup("instance") != nil && slices.ContainsFunc(args, file.IsInstance) {
		text += "; an instance is named with --instance GROUP/INDEX"
	}
	return errors.New(text)
}

// NoSuchCommand returns the error for an unknown subcommand of a command, or of the
// program.
func NoSuchCommand(cmd *cobra.Command, name string) error {
	if before, _, found := strings.Cut(name, "="); found {
		name = before + "=…" // value of a variable
	}
	names := Subcommands(cmd)
	text := fmt.Sprintf("unknown command %q", name)
	if cmd.HasParent() {
		text = fmt.Sprintf("%s has no command %q; it has %s", ShortPath(cmd), name, strings.Join(names, ", "))
	}
	return errors.New(text + didYouMean(similar(cmd, name, names)))
}

// similar returns the command that was probably meant: one with a similar name, or the
// command that has this name in another tool.
func similar(cmd *cobra.Command, name string, names []string) string {
	for _, sub := range cmd.Commands() {
		if slices.Contains(sub.SuggestFor, name) {
			return sub.Name()
		}
	}
	return spelling.Nearest(name, names)
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(". Did you mean %q?", near)
}

// Mistaken returns an error if the argument of a command with subcommands looks
// like a mistyped subcommand and not like a manifest.
func Mistaken(cmd *cobra.Command, args []string, most int) error {
	if len(args) == 0 || strings.ContainsAny(args[0], `./\`) || Exists(args[0]) {
		return nil
	}
	if path, err := file.Path(args[0], ""); err == nil && Exists(path) {
		return nil
	}
	if len(args) > most || similar(cmd, args[0], Subcommands(cmd)) != "" {
		return NoSuchCommand(cmd, args[0])
	}
	return nil
}

// Subcommands returns the names of the commands that people may use below a command.
func Subcommands(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names = append(names, sub.Name())
		}
	}
	return names
}

// Exists reports whether a file exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// FlagError describes a wrong flag, without a value that may be a secret.
func FlagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		empty   *pflag.ValueRequiredError
		wrong   *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
		whole   values.Refusal
		number  *strconv.NumError
	)
	command := ShortPath(cmd)
	if command == "" {
		command = "bootstrap"
	}
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("%s has no flag -%s", command, unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		hint := didYouMean(similarFlag(cmd, name))
		if here := insteadOf(name); here != "" {
			hint = "; " + here
		}
		return fmt.Errorf("%s has no flag --%s%s", command, name, hint)
	case errors.As(err, &empty):
		metavar, _ := pflag.UnquoteUsage(empty.GetFlag())
		return fmt.Errorf("--%s needs a value: --%s %s", empty.GetFlag().Name, empty.GetFlag().Name, metavar)
	case errors.As(err, &whole):
		return whole
	case errors.As(err, &wrong) && wrong.GetFlag().Value.Type() == "bool":
		return fmt.Errorf("--%s is given alone, or as --%s=true or --%s=false", wrong.GetFlag().Name, wrong.GetFlag().Name, wrong.GetFlag().Name)
	case errors.As(err, &wrong) && errors.As(err, &number):
		return fmt.Errorf("--%s %s: it is not a whole number, or too large", wrong.GetFlag().Name, wrong.GetValue())
	case errors.As(err, &wrong):
		return fmt.Errorf("--%s %s: %w", wrong.GetFlag().Name, wrong.GetValue(), wrong.Unwrap())
	case errors.As(err, &syntax):
		name, _, _ := strings.Cut(syntax.GetSpecifiedFlag(), "=")
		return fmt.Errorf("%s is not a flag", name)
	}
	return err
}

// insteadOf returns what does here what a flag of bosh does; empty: it is no flag of bosh.
func insteadOf(name string) string {
	switch name {
	case "dry-run":
		return "`bootstrap plan MANIFEST` shows what deploy would do"
	case "no-converge":
		return "--instance GROUP/INDEX changes one instance, and no other"
	case "recreate-vms-created-before", "vms-created-before":
		return "`bootstrap recreate MANIFEST --created-before DATE` replaces only VMs that were created before a time such as 2006-01-02T15:04:05Z"
	}
	return ""
}

func similarFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spelling.Nearest(name, names); near != "" {
		return "--" + near
	}
	return ""
}

// AtMostAManifest allows one manifest or none.
func AtMostAManifest(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return NoInputs(cmd)
	}
	return OneManifest(cmd, args)
}
