package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/owner"
	"bootstrap/internal/wait"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

func newVariables(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "variables",
		Short: "List the variables of a manifest, or give them new values",
		Args:  cli.NoArgs,
		RunE:  c.Help,
	}
	cmd.AddCommand(newVariablesList(c), newVariablesRotate(c))
	return cmd
}

func newVariablesList(c *cli.Console) *cobra.Command {
	var inputs document.Options
	var of instance.Options
	cmd := &cobra.Command{
		Use:   "list MANIFEST",
		Short: "List the variables of a manifest, without their values",
		Long: `List prints each variable that the manifest defines, where its value comes from, and
when a certificate expires. It warns about stored values that do not match their
options any more. It neither prints nor generates values. A variable with scope:
instance has a row for each instance of the deployment.`,
		Example: "  bootstrap variables list bosh.yml -l vars.yml --vars-store creds.yml",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			defer sourced(c, &inputs)()
			of.Manifest = args[0]
			selected, err := instancesOf(cmd.Context(), c, &inputs, &of)
			if err != nil {
				return err
			}
			if selected != nil {
				inputs.Instances = slices.DeleteFunc(inputs.Instances, func(in document.Instance) bool { return !selected(in) })
			}
			list, err := document.Variables(cmd.Context(), args[0], inputs)
			if err != nil {
				return err
			}
			if c.JSON() {
				ui.PrintAll(c.Lines(), "variable", variableLines(list, time.Now()))
				return nil
			}
			c.Print(func(out *ui.Writer) { variableTable(out, list, time.Now()) })
			return nil
		},
	}
	f := cmd.Flags()
	c.InputFlags(f, &inputs)
	varsFlag(f, &of.StateFile)
	cli.InstanceFlag(f, &of)
	return cmd
}

func newVariablesRotate(c *cli.Console) *cobra.Command {
	var inputs document.Options
	var what document.Rotation
	var of instance.Options
	var lockWait time.Duration
	cmd := &cobra.Command{
		Use:   "rotate MANIFEST {NAME... | --expiring-within TIME}",
		Short: "Give stored variables new values",
		Long: `Rotate generates new values in the vars store: for the variables that you name, or
for certificates that expire within some time. If a CA or another value changes, it
also generates the certificates that the CA signed, and the variables that have the
value in their options. All values are written at once, and the previous file is kept.
The next deploy gives the new values to the VM. Of a variable with scope: instance, the
values of all instances are rotated, or of those that --instance selects.`,
		Example: "  bootstrap variables rotate bosh.yml --vars-store creds.yml admin_password\n" +
			"  bootstrap variables rotate bosh.yml --vars-store creds.yml --expiring-within 30d --dry-run",
		Args: func(cmd *cobra.Command, args []string) error { return cli.ManifestAnd(cmd, args, math.MaxInt) },
		RunE: func(cmd *cobra.Command, args []string) error {
			what.Names = args[1:]
			switch expiring := cmd.Flags().Changed("expiring-within"); {
			case expiring && len(what.Names) > 0:
				return errors.New("the names of variables and --expiring-within cannot be used together")
			case !expiring && len(what.Names) == 0:
				return errors.New("rotate needs the names of variables or --expiring-within TIME")
			}
			c.Start()
			c.NameTarget(&deployer.Options{Options: instance.Options{Manifest: args[0], StateFile: of.StateFile, Inputs: inputs}})
			defer sourced(c, &inputs)()
			of.Manifest = args[0]
			selected, err := instancesOf(cmd.Context(), c, &inputs, &of)
			if err == nil && !what.DryRun {
				err = unused(cmd.Context(), of, lockWait)
			}
			if err != nil {
				return err
			}
			what.Selected = selected
			began := time.Now()
			rotated, err := document.Rotate(cmd.Context(), args[0], inputs, what)
			if err != nil {
				return err
			}
			if err := keepRotated(c, of, rotated, what.DryRun, began); err != nil {
				return err
			}
			printRotated(c, rotated, what.DryRun)
			return nil
		},
	}
	f := cmd.Flags()
	c.VarFlags(f, &inputs)
	varsFlag(f, &of.StateFile)
	cli.InstanceFlag(f, &of)
	cli.LockFlag(f, &lockWait)
	cli.TimeVar(f, &what.ExpiringWithin, "expiring-within", 0, "rotate the certificates that expire within this time, such as 30d")
	f.BoolVar(&what.DryRun, "dry-run", false, "only show what would be rotated")
	return cmd
}

// unused waits until no run changes the deployment: one that adds or deletes instances would
// use values that its plan did not have. The error names the run after the limit.
func unused(ctx context.Context, of instance.Options, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var by error
	err := wait.Poll(limited, time.Second, func() (bool, error) {
		by = of.InUse(ctx)
		_, here := errors.AsType[*file.LockedError](by)
		_, elsewhere := errors.AsType[*team.HeldError](by)
		if here || elsewhere {
			return false, nil
		}
		return true, by
	})
	if ctx.Err() != nil {
		return &report.InterruptedError{Look: true}
	}
	return cmp.Or(by, err)
}

// RotatedLine is a variable with a new value, as --json prints it.
type RotatedLine struct {
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"` // GROUP/INDEX, with scope: instance
	Type     string `json:"type"`
	Why      string `json:"why"`
	Rotated  bool   `json:"rotated"` // false with --dry-run
}

func printRotated(c *cli.Console, rotated []document.Rotated, dry bool) {
	if c.JSON() {
		lines := make([]RotatedLine, len(rotated))
		for i, r := range rotated {
			lines[i] = RotatedLine{r.Name, r.Instance, r.Type, r.Why, !dry}
		}
		ui.PrintAll(c.Lines(), "rotation", lines)
		return
	}
	verb := "Rotated"
	if dry {
		verb = "Would rotate"
	}
	c.Print(func(out *ui.Writer) {
		for _, r := range rotated {
			why := ""
			if r.Why != "named" {
				why = ": " + r.Why
			}
			fmt.Fprintf(out, "%s %s (%s)%s\n", verb, nameOf(r.Name, r.Instance), r.Type, why)
		}
		if len(rotated) > 0 && !dry {
			fmt.Fprintln(out, "Run `"+c.WithTarget("bootstrap deploy MANIFEST")+"` to apply the new values")
		}
		if len(rotated) == 0 {
			fmt.Fprintln(out, "Nothing to rotate")
		}
	})
}

// keepRotated records for bootstrap events which variables of a deployment have new values.
func keepRotated(c *cli.Console, of instance.Options, rotated []document.Rotated, dry bool, began time.Time) error {
	if dry || len(rotated) == 0 {
		return nil
	}
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	var names []string
	for _, r := range rotated {
		names = append(names, nameOf(r.Name, r.Instance))
	}
	if dir := of.RecordFolder(); record.Exists(dir) {
		c.Changes.Several(home, dir, "rotate", names...)
	} else {
		opts := deployer.Options{Options: of}
		opts.Home = home
		c.Changes.One(opts, "rotate", names...)
	}
	c.KeepChanges(began, nil)
	owner.GiveBack(home)
	return nil
}

// nameOf returns the name of a value for people.
func nameOf(name, instance string) string {
	if instance == "" {
		return name
	}
	return name + " of " + instance
}

// instancesOf gives the inputs the instances of the deployment, if its record has some,
// and the vars store of a team, unless they name one. It returns which instances are
// selected; nil: all are.
func instancesOf(ctx context.Context, c *cli.Console, inputs *document.Options, of *instance.Options) (selected func(document.Instance) bool, err error) {
	switch {
	case !team.IsAddress(of.StateFile):
	case inputs.VarsStore == "" || of.Instance != "" || manifest.LooksSeveral(ctx, of.Manifest, *inputs):
		of.Inputs = *inputs
		if _, err := c.OpenTeam(ctx, instance.Config{}, of.StateFile, of); err != nil {
			return nil, err
		}
		*inputs = of.Inputs
	default: // It has no instances, and the vars store is a file.
		of.StateFile = ""
	}
	all, list, err := of.Selected()
	if err != nil {
		return nil, err
	}
	for _, in := range all.Instances {
		if in.Going == "" {
			inputs.Instances = append(inputs.Instances, instance.MemberOf(in).Values())
		}
	}
	if of.Instance == "" {
		return nil, nil
	}
	return func(one document.Instance) bool {
		return slices.ContainsFunc(list, func(in *record.Instance) bool { return in.ID == one.ID })
	}, nil
}

// VariableLine is a variable as --json prints it.
type VariableLine struct {
	Name     string         `json:"name"`
	Instance string         `json:"instance,omitempty"` // GROUP/INDEX, with scope: instance
	Type     string         `json:"type,omitempty"`
	Value    string         `json:"value"` // given, stored, from a source, to be generated, missing
	NotAfter *time.Time     `json:"not_after,omitempty"`
	DaysLeft *int           `json:"days_left,omitempty"`
	Findings []variableFind `json:"findings,omitempty"`
}

type variableFind struct {
	Kind    string `json:"kind"`
	Option  string `json:"option,omitempty"`
	Message string `json:"message"`
}

func variableLines(list []document.Variable, now time.Time) []VariableLine {
	lines := make([]VariableLine, len(list))
	for i, v := range list {
		line := VariableLine{Name: v.Name, Instance: v.Instance, Type: v.Type, Value: string(v.Origin)}
		if !v.NotAfter.IsZero() {
			end, left := v.NotAfter.UTC(), daysLeft(v.NotAfter, now)
			line.NotAfter, line.DaysLeft = &end, &left
		}
		for _, f := range v.Findings {
			line.Findings = append(line.Findings, variableFind{string(f.Kind), f.Option, f.Message})
		}
		lines[i] = line
	}
	return lines
}

func variableTable(out *ui.Writer, list []document.Variable, now time.Time) {
	table := ui.NewTable(out, "NAME", "TYPE", "VALUE", "EXPIRES").
		Yield("EXPIRES", 12).Yield("TYPE", 0).Yield("EXPIRES", 0)
	for _, v := range list {
		kind, expires := v.Type, "-"
		if kind == "" {
			kind = "-"
		}
		if !v.NotAfter.IsZero() {
			expires = ui.Moment(v.NotAfter)
			switch left := daysLeft(v.NotAfter, now); {
			case left < 0:
				expires += " (expired)"
			case left == 1:
				expires += " (1 day left)"
			default:
				expires += fmt.Sprintf(" (%d days left)", left)
			}
		}
		table.Row(nameOf(v.Name, v.Instance), kind, string(v.Origin), expires)
	}
	table.Print()
	for _, v := range list {
		for _, f := range v.Findings {
			fmt.Fprintf(out, "Warning: %s: %s\n", v.Pos, f)
		}
	}
}

// daysLeft returns the whole days until a time; negative if it has passed.
func daysLeft(then, now time.Time) int { return int(math.Floor(then.Sub(now).Hours() / 24)) }

// sourced prepares inputs so that sources of values can be asked, for a command without a
// deployment. The caller must call done.
func sourced(c *cli.Console, inputs *document.Options) (done func()) {
	home, _ := c.BoshHome() // has the host keys of jumpboxes; may be empty
	env := instance.NewEnv(instance.Config{Home: home, Getenv: c.Getenv, Secret: c.Redactor.Add, Report: func(report.Event) {}})
	*inputs = env.Inputs(*inputs)
	if ask := inputs.Ask; ask != nil {
		inputs.Ask = func(ctx context.Context, names []string) (document.Answers, error) {
			answers, err := ask(ctx, names)
			if ctx.Err() != nil {
				err = &report.InterruptedError{Look: true}
			}
			return answers, err
		}
	}
	return env.Close
}

// varsFlag adds the flag of commands that use no state, but the vars store in a team's
// store.
func varsFlag(f *pflag.FlagSet, address *string) {
	cli.StateFlag(f, address)
	f.Lookup("state").Usage = "use the vars store of the state at this `URL` (or BOOTSTRAP_STATE)"
}

// varsOfTeam makes the inputs use the vars store in a team's store, unless they name one.
// It returns the path of the state in --state; empty: it names none, or only a team's
// store.
func varsOfTeam(ctx context.Context, c *cli.Console, inputs *document.Options, address string) (state string, err error) {
	switch {
	case !team.IsAddress(address):
		return address, nil
	case inputs.VarsStore != "":
		return "", nil
	}
	from := instance.Options{Inputs: *inputs}
	if _, err := c.OpenTeam(ctx, instance.Config{}, address, &from); err != nil {
		return "", err
	}
	*inputs = from.Inputs
	return from.StateFile, nil
}
