package cli

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/addresses"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/printable"
	"bootstrap/state/file"
)

// namedCommand matches a command in a message. MANIFEST is the placeholder for
// the arguments that name the deployment. An instance may follow, or words that say that
// the command is about all.
var namedCommand = regexp.MustCompile("\\bbootstrap((?: [a-z]+(?:-[a-z]+)*){1,2}) MANIFEST\\b(?: --instance ([^\\s`\"]+))?([`\"] (?:for all instances|without --instance)\\b)?")

// quotedCommand matches a command in a hint, which is in quotes.
var quotedCommand = regexp.MustCompile("[\"`](bootstrap [^\"`]+)[\"`]")

// nextAfter returns the commands to run next: those in the hint; or after a change of the
// VM, a command that shows or starts it.
func (c *Console) nextAfter(code int, hint string) (list []string) {
	for _, m := range quotedCommand.FindAllStringSubmatch(hint, -1) {
		list = append(list, m[1])
	}
	if o := c.end.outcome; code == exit.Done && o != nil && o.Changed && (o.VM != "" || o.Detached || o.Instances != nil && len(o.Instances.At) > 0) {
		next := "bootstrap status MANIFEST"
		if o.Down {
			next = "bootstrap start MANIFEST"
		}
		list = append(list, c.WithTarget(next))
	}
	return list
}

// WithTarget completes the commands in a text so that they can be pasted. It may be called
// at the same time.
func (c *Console) WithTarget(text string) string {
	return c.WithTargetOf(c.line.target, text)
}

// WithTargetOf completes the commands in a text about another deployment or one of its
// instances; nil: they stay as they are.
func (c *Console) WithTargetOf(target *deployer.Options, text string) string {
	if target == nil {
		return text
	}
	c.line.completing.Lock()
	defer c.line.completing.Unlock()
	return namedCommand.ReplaceAllStringFunc(text, func(named string) string {
		parts := namedCommand.FindStringSubmatch(named)
		words, of := strings.Fields(parts[1]), *target
		of.Instance = cmp.Or(parts[2], of.Instance)
		if parts[3] != "" {
			of.Instance = ""
		}
		if cmd, _, err := c.line.root.Find(words); err == nil && cmd != c.line.root {
			if args := c.memberArgs(cmd, &of); args != "" {
				return "bootstrap " + args + parts[3]
			}
		}
		return strings.TrimSuffix("bootstrap"+parts[1]+" "+c.targetArgs(words, &of), " ") + parts[3]
	})
}

// targetArgs returns the arguments that name a deployment for another command,
// as far as that accepts them. Values of variables may be secrets: they are replaced by
// an ellipsis, which no shell accepts as a value.
func (c *Console) targetArgs(command []string, t *deployer.Options) string {
	cmd, _, err := c.line.root.Find(command)
	if err != nil || cmd == c.line.root {
		return "MANIFEST"
	}
	var args []string
	line := c.line.full.For(cmd, t.Manifest)
	// The next command has the same environment.
	add := func(flag, name string, values ...string) {
		for _, value := range values[min(line.Given(name), len(values)):] {
			if value != "" && cmd.Flags().Lookup(name) != nil {
				args = append(args, flag+" "+value)
			}
		}
	}
	quoted := func(words ...string) []string {
		list := make([]string, len(words))
		for i, word := range words {
			if word != "" {
				list[i] = printable.ShellWord(word)
			}
		}
		return list
	}
	switch {
	case line.File != nil && line.Typed == "" && t.Manifest != "":
	case line.File != nil && t.Manifest != "":
		args = append(args, printable.ShellWord(line.Typed))
	case t.Manifest != "":
		args = append(args, printable.ShellWord(t.Manifest))
	case t.StateFile == "" || !strings.Contains(cmd.Use, "{MANIFEST | --state "):
		args = append(args, "MANIFEST")
	}
	if line.Own != nil && cmd.Flags().Lookup(environment.FlagName) != nil {
		args = append(args, "--"+environment.FlagName+"="+printable.ShellWord(*line.Own))
	}
	add("--state", "state", quoted(t.StateArgument())...)
	add("--instance", "instance", quoted(t.Instance)...)
	add("-o", "ops-file", quoted(t.Inputs.Ops...)...)
	add("--cloud-config", "cloud-config", quoted(t.Inputs.CloudConfigs...)...)
	add("--cloud-provider", "cloud-provider", quoted(t.Inputs.CloudProvider)...)
	add("--runtime-config", "runtime-config", quoted(t.Inputs.RuntimeConfigs...)...)
	add("--release", "release", quoted(t.Inputs.Sources.Releases...)...)
	add("--stemcell", "stemcell", quoted(t.Inputs.Sources.Stemcells...)...)
	add("--links-from", "links-from", quoted(t.Inputs.Sources.Links...)...)
	add("--lock-file", "lock-file", quoted(t.Inputs.Sources.LockFile)...)
	add("--database", "database", c.namedDatabase(t.Database))
	add("--compile", "compile", quoted(t.Compile)...)
	varsFiles := quoted(t.Inputs.VarsFiles...)
	for i, path := range varsFiles {
		if path == "-" { // The next command has another standard input.
			varsFiles[i] = "<…>"
		}
	}
	add("-l", "vars-file", varsFiles...)
	add("--var-file", "var-file", quoted(t.Inputs.VarFiles...)...)
	add("--vars-env", "vars-env", quoted(t.Inputs.VarsEnv...)...)
	if add("--var-source", "var-source", quoted(t.Inputs.VarSources...)...); len(t.Inputs.VarSources) > 0 {
		add("--pass-env", "pass-env", t.Inputs.PassEnv...)
	}
	if t.Inputs.SaveStore == nil { // otherwise the vars store is that of the team's store
		add("--vars-store", "vars-store", quoted(t.Inputs.VarsStore)...)
	}
	if keys := t.Inputs.Keys; keys != nil {
		add("--identity", "identity", quoted(keys.Identities[len(c.identities()):]...)...)
	}
	for _, v := range t.Inputs.Vars {
		name, _, _ := strings.Cut(v, "=")
		add("-v", "var", printable.ShellWord(name)+"=<…>")
	}
	return strings.Join(args, " ")
}

// namedDatabase returns the address ledger for another command; empty if the environment
// names it.
func (c *Console) namedDatabase(address string) string {
	var set string
	_ = (*values.Database)(&set).Set(c.Getenv("BOOTSTRAP_DATABASE")) // an error was reported before
	if address == "" || address == set {
		return ""
	}
	return addresses.Argument(address)
}

// completed is an error whose commands can be pasted.
type completed struct {
	error
	text string
}

func (e *completed) Error() string { return e.text }

func (e *completed) Unwrap() error { return e.error }

// memberArgs returns the arguments of a command about a run's deployment t, if it is a
// member of a fleet; empty: it is not, or the command needs more. The fleet file, which
// names the member, has its variables.
func (c *Console) memberArgs(cmd *cobra.Command, t *deployer.Options) string {
	member, fleet, found := strings.Cut(c.Getenv(rollout.MemberVariable), "=")
	if !found {
		return ""
	}
	switch {
	case slices.Contains([]string{"deploy", "recreate", "plan", "delete"}, cmd.Name()) && cmd.Parent() == c.line.root:
		return "fleet " + cmd.Name() + " " + fleet + " --only " + member
	case strings.Contains(cmd.Use, "{MANIFEST | --state FILE}"):
		path := t.StateArgument()
		if path == "" {
			path = file.Beside(t.Manifest)
		}
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		args := strings.TrimPrefix(cmd.CommandPath(), c.line.root.Name()+" ") + " --state " + printable.ShellWord(path)
		if t.Instance != "" && cmd.Flags().Lookup("instance") != nil {
			args += " --instance " + printable.ShellWord(t.Instance)
		}
		return args
	}
	return ""
}
