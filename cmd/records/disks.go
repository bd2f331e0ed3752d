package records

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/observe"
	"bootstrap/state/file"
)

func newDisks(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "disks {MANIFEST | --state FILE}",
		Short: "List the persistent disks; attach, delete or forget one",
		Long: `Disks lists the persistent disks that the state file records: the current one; unused
ones, which the next deploy deletes; and orphaned ones, which are kept until you
delete them. A disk becomes orphaned when the manifest has no disk any more, by
delete --keep-disk and by deploy --keep-old-disk. Disks locks nothing and does not
ask the cloud. Of several instances it lists those of all, or of --instance.`,
		Example: "  bootstrap disks manifest.yml\n  bootstrap disks attach manifest.yml disk-6b7c\n  bootstrap deploy manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Mistaken(cmd, args, 1); err != nil {
				return err
			}
			opts := deployer.Options{Options: choice.one}
			opts.Manifest, opts.StateFile = cli.Manifest(args), choice.file
			several, err := instances.Select(cmd.Context(), c, &opts)
			switch {
			case err != nil:
				return err
			case several != nil && len(args) == 1:
				return disksOfAll(c, several)
			}
			s, err := choice.open(cmd, args)
			if err != nil {
				return err
			}
			st, err := s.read()
			if err != nil {
				return err
			}
			printDisks(c, observe.Disks(st))
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	cmd.AddCommand(newDisksAttach(c), newDisksDelete(c), newDisksForget(c))
	return cmd
}

// disksOfAll lists the disks of several instances.
func disksOfAll(c *cli.Console, of *instances.Selection) error {
	c.Start()
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	var list []observe.SeenDisk
	for _, in := range of.List {
		st, _, err := file.Read(of.Record.StatePath(in), home)
		if err != nil {
			return err
		}
		for _, d := range observe.Disks(st) {
			d.Instance = in.Name()
			list = append(list, d)
		}
	}
	printDisks(c, list)
	return nil
}

// printDisks prints disks.
func printDisks(c *cli.Console, list []observe.SeenDisk) {
	if c.JSON() {
		ui.PrintAll(c.Lines(), "disk", list)
		return
	}
	c.Print(func(out *ui.Writer) { ui.Disks(out, list) })
}

func newDisksAttach(c *cli.Console) *cobra.Command {
	return aboutDisk(c, &cobra.Command{
		Use:   "attach {MANIFEST | --state FILE} CID",
		Short: "Make an orphaned disk the current one; the next deploy attaches it",
		Long: `Attach makes an orphaned disk the current disk again. It changes nothing in the
cloud: the next deploy attaches the disk. It refuses while another disk is the
current one.`,
		Example: "  bootstrap disks attach manifest.yml disk-6b7c && bootstrap deploy manifest.yml",
	}, deployer.AttachDisk, func(cmd *cobra.Command, opts *deployer.Options) {
		environment.AddFlag(cmd.Flags(), &opts.Inputs.FlagsFile)
		cli.StateFlag(cmd.Flags(), &opts.StateFile)
		cli.InstanceFlag(cmd.Flags(), &opts.Options)
		cli.LockFlag(cmd.Flags(), &opts.LockWait)
	})
}

func newDisksDelete(c *cli.Console) *cobra.Command {
	var ask cli.Asking
	return aboutDisk(c, &cobra.Command{
		Use:   "delete {MANIFEST | --state FILE} CID",
		Short: "Delete an orphaned disk and its data",
		Long: `Delete deletes an orphaned disk, WITH ITS DATA. On the machine that deployed, it
needs neither the contents of the manifest nor variables nor downloads. With the
last disk of a deleted deployment it removes the state file and the installed CPI.`,
		Example: "  bootstrap disks delete manifest.yml disk-6b7c",
	}, deployer.DeleteDisk, func(cmd *cobra.Command, opts *deployer.Options) {
		diskFlags(c, cmd.Flags(), opts)
		ask.Flags(cmd.Flags())
		cmd.PreRun = func(*cobra.Command, []string) { opts.Confirm = c.Confirm(ask) }
	})
}

func newDisksForget(c *cli.Console) *cobra.Command {
	current := false
	var ask cli.Asking
	return aboutDisk(c, &cobra.Command{
		Use:   "forget {MANIFEST | --state FILE} {CID | --current}",
		Short: "Remove the record of a disk that does not exist any more",
		Long: `Forget removes the record of a disk that does not exist any more, so that the next
deploy creates a new, empty one. It asks the CPI first and refuses while the disk exists.
With --force the CPI is not asked; on a terminal, you are.`,
		Example: "  bootstrap disks forget manifest.yml --current",
	}, deployer.ForgetDisk, func(cmd *cobra.Command, opts *deployer.Options) {
		diskFlags(c, cmd.Flags(), opts)
		ask.Flags(cmd.Flags())
		cmd.PreRun = func(*cobra.Command, []string) { opts.Confirm = c.Confirm(ask) }
		cmd.Flags().BoolVar(&current, "current", false, "the current disk")
		cmd.Flags().BoolVar(&opts.Force, "force", false, "do not ask the CPI whether the disk exists")
	})
}

// diskFlags adds the flags of commands that may call the CPI about a disk.
func diskFlags(c *cli.Console, f *pflag.FlagSet, opts *deployer.Options) {
	c.InputFlags(f, &opts.Inputs)
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.LockFlag(f, &opts.LockWait)
	cli.CPIFlags(f, opts)
	cli.AgentFlags(f, opts)
	cli.AnswerFlag(f, opts)
}

// aboutDisk completes a command whose arguments are a manifest and a CID, or --current.
func aboutDisk(c *cli.Console, cmd *cobra.Command, run func(context.Context, deployer.Options) error, flags func(*cobra.Command, *deployer.Options)) *cobra.Command {
	var opts deployer.Options
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		want := 1
		if f := cmd.Flags().Lookup("current"); f != nil && f.Changed {
			want = 0
		}
		switch {
		case opts.StateFile == "" && len(args) == 0:
			return fmt.Errorf("%s needs a manifest, or the state file: %s", cli.ShortPath(cmd), cli.Form(cmd))
		case len(args) > want+1:
			return cli.TooMany(cmd, args)
		case len(args) == want+1:
			opts.Manifest, args = args[0], args[1:]
		case opts.StateFile == "" || len(args) < want:
			return fmt.Errorf("%s needs the CID of a disk: %s", cli.ShortPath(cmd), cli.Form(cmd))
		}
		if want == 1 {
			opts.Disk = args[0]
		}
		if opts.Manifest == "" {
			if err := cli.NoInputs(cmd); err != nil {
				return err
			}
		}
		c.Start()
		opts.Inputs.Lenient = true
		if opts.Instance == "" && opts.StateFile == "" {
			if err := refuseSeveral(cmd, opts.Manifest); err != nil {
				return err
			}
		}
		return c.Deployment(cmd.Context(), opts, run)
	}
	flags(cmd, &opts)
	return cmd
}
