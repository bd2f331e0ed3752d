package cmd

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/ui"
	"bootstrap/manifest"
)

func newVariables(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "variables",
		Short: "List the variables of a manifest, or give them new values",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { c.quiet = true; return cmd.Help() },
	}
	cmd.AddCommand(newVariablesList(c), newVariablesRotate(c))
	return cmd
}

func newVariablesList(c *console) *cobra.Command {
	var inputs manifest.Options
	cmd := &cobra.Command{
		Use:   "list MANIFEST",
		Short: "List the variables of a manifest, without their values",
		Long: `List prints each variable that the manifest defines, where its value comes from,
and when a certificate ends. It warns of stored values that do not match their
options any more. Values are not printed, and none is generated. With --json,
there is one object per line.`,
		Example: "  bootstrap variables list bosh.yml -l vars.yml --vars-store creds.yml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c.started = true
			list, err := manifest.Variables(args[0], inputs)
			if err != nil {
				return err
			}
			if c.json {
				printLines(c, "variable", variableLines(list, time.Now()))
				return nil
			}
			c.print(func(out *ui.Writer) { variableTable(out, list, time.Now()) })
			return nil
		},
	}
	f := cmd.Flags()
	c.varFlags(f, &inputs)
	expiryFlag(f, &inputs)
	return cmd
}

func newVariablesRotate(c *console) *cobra.Command {
	var inputs manifest.Options
	var what manifest.Rotation
	var expiring daysFlag
	cmd := &cobra.Command{
		Use:   "rotate MANIFEST {NAME... | --expiring-within TIME}",
		Short: "Give stored variables new values",
		Long: `Rotate generates variables anew in the vars store: those that are named, or the
certificates that end within a time or have ended. With a CA, what it signed is
generated too, and with any variable what has its value in its options. All of
it is written in one go, and the previous file is kept beside it. Deploy then
brings the new values to the VM.`,
		Example: "  bootstrap variables rotate bosh.yml --vars-store creds.yml admin_password\n" +
			"  bootstrap variables rotate bosh.yml --vars-store creds.yml --expiring-within 30d --dry-run",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what.Names = args[1:]
			what.ExpiringWithin = time.Duration(expiring)
			if (len(what.Names) > 0) == cmd.Flags().Changed("expiring-within") {
				return errors.New("rotate needs either the names of variables or --expiring-within")
			}
			c.started = true
			rotated, err := manifest.Rotate(args[0], inputs, what)
			if err != nil {
				return err
			}
			c.printRotated(rotated, what.DryRun)
			return nil
		},
	}
	f := cmd.Flags()
	c.varFlags(f, &inputs)
	f.Var(&expiring, "expiring-within", "rotate the certificates that end within this `TIME`, such as 30d")
	f.BoolVar(&what.DryRun, "dry-run", false, "only tell what would be rotated")
	return cmd
}

// rotatedLine is a variable with a new value, as --json prints it.
type rotatedLine struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Why     string `json:"why"`
	Rotated bool   `json:"rotated"` // false: it only would be
}

func (c *console) printRotated(rotated []manifest.Rotated, dry bool) {
	if c.json {
		lines := make([]rotatedLine, len(rotated))
		for i, r := range rotated {
			lines[i] = rotatedLine{r.Name, r.Type, r.Why, !dry}
		}
		printLines(c, "rotation", lines)
		return
	}
	verb := "Rotated"
	if dry {
		verb = "Would rotate"
	}
	c.print(func(out *ui.Writer) {
		for _, r := range rotated {
			fmt.Fprintf(out, "%s %s (%s): %s\n", verb, r.Name, r.Type, r.Why)
		}
		if len(rotated) == 0 {
			fmt.Fprintln(out, "Nothing to rotate")
		}
	})
}

// variableLine is a variable as --json prints it.
type variableLine struct {
	Name     string         `json:"name"`
	Type     string         `json:"type,omitempty"`
	Value    string         `json:"value"` // given, stored, to be generated, missing
	NotAfter *time.Time     `json:"not_after,omitempty"`
	DaysLeft *int           `json:"days_left,omitempty"`
	Findings []variableFind `json:"findings,omitempty"`
}

type variableFind struct {
	Kind    string `json:"kind"`
	Option  string `json:"option,omitempty"`
	Message string `json:"message"`
}

func variableLines(list []manifest.Variable, now time.Time) []variableLine {
	lines := make([]variableLine, len(list))
	for i, v := range list {
		line := variableLine{Name: v.Name, Type: v.Type, Value: string(v.Origin)}
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

func variableTable(out *ui.Writer, list []manifest.Variable, now time.Time) {
	table := ui.NewTable(out, "NAME", "TYPE", "VALUE", "EXPIRES")
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
		table.Row(v.Name, kind, string(v.Origin), expires)
	}
	table.Print()
	for _, v := range list {
		for _, f := range v.Findings {
			fmt.Fprintf(out, "Warning: %s: %s\n", v.Pos, f)
		}
	}
}

// daysLeft returns the whole days until then, negative once it has passed.
func daysLeft(then, now time.Time) int { return int(math.Floor(then.Sub(now).Hours() / 24)) }

// expiryFlag adds the flag of commands that warn of stored certificates.
func expiryFlag(f *pflag.FlagSet, inputs *manifest.Options) {
	inputs.ExpiryWarning = 30 * day
	f.Var((*daysFlag)(&inputs.ExpiryWarning), "expiry-warning", "warn of stored certificates that end within this `TIME`, such as 30d or 12h")
}

const day = 24 * time.Hour

// daysFlag is a time in days, such as 30d, or as Go writes it, such as 12h.
type daysFlag time.Duration

func (d *daysFlag) Type() string { return "time" }

func (d *daysFlag) String() string {
	switch t := time.Duration(*d); {
	case t == 0:
		return "0"
	case t%day == 0:
		return strconv.Itoa(int(t/day)) + "d"
	}
	return time.Duration(*d).String()
}

func (d *daysFlag) Set(text string) error {
	t, err := time.ParseDuration(text)
	if number, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		n, err = strconv.ParseInt(number, 10, 64)
		if n > int64(math.MaxInt64/day) {
			return fmt.Errorf("%s is too long", text)
		}
		t = time.Duration(n) * day
	}
	if err != nil || t < 0 {
		return errors.New("expected a time such as 30d or 12h")
	}
	*d = daysFlag(t)
	return nil
}
