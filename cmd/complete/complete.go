// Package complete returns completions of command lines to shells: names of files, and
// records of this machine about a deployment.
package complete

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/values"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/fleet"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
	"bootstrap/state"
	"bootstrap/state/file"
)

// All sets the completions of all commands below cmd: of arguments, by the words of Use,
// and of flags whose values this machine knows. home returns ~/.bosh.
func All(cmd *cobra.Command, home Home) {
	for _, sub := range cmd.Commands() {
		All(sub, home)
	}
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() || strings.Contains(cmd.Use, "MANIFEST") {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completeArgument(home, cmd, args, begin)
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(home, cmd, f) })
	if !cmd.HasParent() {
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(home, cmd, f) })
	}
}

// Home returns the folder ~/.bosh.
type Home func() (string, error)

const noFiles = cobra.ShellCompDirectiveNoFileComp

// documents completes the names of YAML files.
func documents() ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"yml", "yaml"}, cobra.ShellCompDirectiveFilterFileExt
}

// storeNames returns the endings of the names of vars stores.
func storeNames() []cobra.Completion { return []cobra.Completion{"yml", "yaml", "age"} }

// completeArgument completes the argument after args, which begins with begin.
func completeArgument(home Home, cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	_, words, _ := strings.Cut(cmd.Use, " ")
	at := len(args)
	if f := cmd.Flags().Lookup("state"); f != nil && f.Changed && strings.HasPrefix(words, "{MANIFEST | --state FILE}") && (at == 0 || !isFile(args[0])) {
		at++ // it replaces the manifest, unless that is named, too
	}
	first := strings.TrimLeft(words, "[{")
	switch {
	case at == 0 && strings.HasPrefix(first, "MANIFEST"), strings.Contains(words, "MANIFEST..."):
		return documentsWith(begin, isManifest())
	case at == 0 && strings.HasPrefix(first, "FLEET"):
		return documentsWith(begin, isFleet())
	case at == 0 && strings.HasPrefix(first, "STORE"):
		return storeNames(), cobra.ShellCompDirectiveFilterFileExt
	case at == 0 && strings.HasPrefix(first, "FOLDER"):
		return nil, cobra.ShellCompDirectiveFilterDirs
	case at == 0 && len(cmd.ValidArgs) > 0:
		return cmd.ValidArgs, noFiles
	case at == 1 && strings.Contains(words, " SERIAL"), at == 2 && strings.Contains(words, "[SERIAL]"):
		return serials(cmd, args), noFiles
	case at == 1 && strings.Contains(words, "CID") && cmd.HasParent() && cmd.Parent().Name() == "snapshots":
		return snapshotCIDs(home, cmd, args), noFiles
	case at == 1 && strings.Contains(words, "CID"):
		return diskCIDs(home, cmd, args), noFiles
	case at >= 1 && strings.Contains(words, "{NAME..."):
		return variableNames(cmd, args[0]), noFiles
	}
	return nil, noFiles
}

// completeFlag sets the completion of a flag's values.
func completeFlag(home Home, cmd *cobra.Command, f *pflag.Flag) {
	var complete cobra.CompletionFunc
	switch choice, isChoice := f.Value.(values.Choice); {
	case isChoice:
		complete = cobra.FixedCompletions(choice.Of, noFiles)
	case f.Name == "vars-store":
		complete = cobra.FixedCompletions(storeNames(), cobra.ShellCompDirectiveFilterFileExt)
	case f.Name == "ops-file", f.Name == "vars-file", f.Name == "cloud-config", f.Name == "cloud-provider", f.Name == "runtime-config", f.Name == "bootstrap-yml":
		complete = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return documents()
		}
	case f.Name == "state", f.Name == "plan", f.Name == "from":
		complete = cobra.FixedCompletions([]cobra.Completion{"json"}, cobra.ShellCompDirectiveFilterFileExt)
	case f.Name == "adopt-from":
		complete = func(_ *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return documentsWith(begin, isManifest())
		}
	case f.Name == "dir", f.Name == "package-dir":
		complete = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case (f.Name == "forget" || f.Name == "adopt") && f.Value.Type() == "string":
		complete = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return leftovers(home, cmd, args), noFiles
		}
	case f.Name == "instance":
		complete = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return instanceNames(home, cmd, args, begin), noFiles
		}
	case f.Name == "var-source":
		complete = varSources
	case f.Name == "job":
		complete = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return jobNames(home, cmd, args), noFiles
		}
	case f.Name == "only" && strings.Contains(cmd.Use, " FLEET"):
		complete = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return members(cmd, args), noFiles
		}
	default:
		return // the shell's own, which is files
	}
	_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // each flag has only one
}

// varSources completes the kind of a source of values; the shell completes the rest.
func varSources(_ *cobra.Command, _ []string, text string) (list []cobra.Completion, _ cobra.ShellCompDirective) {
	if strings.Contains(text, "=") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for _, k := range source.Kinds() {
		list = append(list, cobra.CompletionWithDesc(k[0]+"=", k[1]))
	}
	return list, cobra.ShellCompDirectiveNoSpace | noFiles
}

// statePath returns the path of the state file on a command line; empty: there is none.
func statePath(cmd *cobra.Command, args []string) string {
	manifest, flag := "", ""
	if len(args) > 0 {
		manifest = args[0]
	}
	if f := cmd.Flags().Lookup("state"); f != nil {
		flag = f.Value.String()
	}
	if manifest == "" && flag == "" {
		return ""
	}
	path, err := file.Path(manifest, flag)
	if err != nil {
		return ""
	}
	return path
}

// stateOf returns the state of a command line; false: it cannot be read.
func stateOf(home Home, cmd *cobra.Command, args []string) (state.State, bool) {
	dir, err := home()
	if err != nil {
		return state.State{}, false
	}
	st, _, err := file.Read(statePath(cmd, args), dir)
	return st, err == nil
}

// serials lists the backups of a state file, or the versions of a deployment with several
// instances.
func serials(cmd *cobra.Command, args []string) (list []cobra.Completion) {
	if f := cmd.Flags().Lookup("instance"); f == nil || !f.Changed {
		for _, v := range record.Versions(record.VersionsIn(record.DirOf("", statePath(cmd, args)))) {
			list = append(list, cobra.CompletionWithDesc(strconv.Itoa(v.Serial), "written "+report.Minute(v.Written)))
		}
		if len(list) > 0 {
			return list
		}
	}
	versions, err := file.Versions(statePath(cmd, args))
	if err != nil {
		return nil
	}
	for _, v := range versions {
		list = append(list, cobra.CompletionWithDesc(strconv.Itoa(v.Serial), "written "+report.Minute(v.Written)))
	}
	return list
}

// diskCIDs lists the persistent disks in a state file.
func diskCIDs(home Home, cmd *cobra.Command, args []string) (list []cobra.Completion) {
	st, ok := stateOf(home, cmd, args)
	if !ok {
		return nil
	}
	for _, d := range observe.Disks(st) {
		if isWord(d.CID) {
			list = append(list, cobra.CompletionWithDesc(d.CID, fmt.Sprintf("%d MiB, %s", d.Size, d.Use)))
		}
	}
	return list
}

// snapshotCIDs lists the snapshots in a state file.
func snapshotCIDs(home Home, cmd *cobra.Command, args []string) (list []cobra.Completion) {
	st, ok := stateOf(home, cmd, args)
	if !ok {
		return nil
	}
	for _, s := range st.Own.Snapshots {
		if isWord(s.CID) {
			list = append(list, cobra.CompletionWithDesc(s.CID, "of "+s.Disk+", "+report.Minute(s.Taken)))
		}
	}
	return list
}

// leftovers lists the leftovers of interrupted runs in a state file.
func leftovers(home Home, cmd *cobra.Command, args []string) (list []cobra.Completion) {
	st, ok := stateOf(home, cmd, args)
	if !ok {
		return nil
	}
	for _, l := range st.Unsettled("") {
		list = append(list, cobra.CompletionWithDesc(l.ID, l.Method+", "+report.Minute(l.Started)))
	}
	return list
}

// jobNames lists the jobs of the last deploy from this machine.
func jobNames(home Home, cmd *cobra.Command, args []string) []cobra.Completion {
	dir, err := home()
	if err != nil {
		return nil
	}
	st, found, err := file.Read(statePath(cmd, args), dir)
	if err != nil || !found {
		return nil
	}
	return observe.Jobs(dir, st)
}

// variableNames lists the variables of a manifest, if the flags allow reading it.
func variableNames(cmd *cobra.Command, manifest string) (list []cobra.Completion) {
	if !isFile(manifest) {
		return nil
	}
	opts := document.Options{}
	if f := cmd.Flags().Lookup("ops-file"); f != nil {
		if ops, ok := f.Value.(pflag.SliceValue); ok {
			opts.Ops = ops.GetSlice()
		}
	}
	if slices.ContainsFunc(opts.Ops, func(path string) bool { return !isFile(path) }) {
		return nil
	}
	variables, err := document.Variables(cmd.Context(), manifest, opts)
	if err != nil {
		return nil
	}
	for _, v := range variables {
		if isWord(v.Name) {
			list = append(list, cobra.CompletionWithDesc(v.Name, v.Type))
		}
	}
	return list
}

// isFile reports whether a path names a file. Reading a terminal or a pipe could take
// input from the person, or wait for ever.
func isFile(path string) bool {
	about, err := os.Stat(path)
	return err == nil && about.Mode().IsRegular()
}

// isWord reports whether a name can be shown completely: a shell would end it at a line
// break, and pass on control characters to the terminal.
func isWord(name string) bool {
	return !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}

// members lists the selectors of a fleet file.
func members(cmd *cobra.Command, args []string) (list []cobra.Completion) {
	list = []cobra.Completion{"outdated", "failed"}
	if len(args) == 0 || !isFile(args[0]) {
		return list
	}
	f, err := fleet.Read(cmd.Context(), args[0], document.Options{}, fleet.Outside{})
	if err != nil {
		return list
	}
	for _, m := range f.Members {
		if isWord(m.Name) {
			list = append(list, m.Name)
		}
	}
	return list
}
