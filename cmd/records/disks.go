package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/observe"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

func newDisks(c *cli.Console) *cobra.Command {
	cmd := listsDisks(c, &cobra.Command{
		Use:   "disks {MANIFEST | --state FILE}",
		Short: "List the persistent disks; attach, delete or forget one",
		Long: `Disks lists the persistent disks that the state file records: the current one; unused
ones, which the next deploy deletes; and orphaned ones, which are kept until you
delete them. A disk becomes orphaned when the manifest has no disk any more, by delete
--keep-disk and by deploy --keep-old-disk. With several instances, those of deleted
instances and old ones of migrations become orphaned, too. Disks locks nothing and
does not ask the cloud.`,
		Example: "  bootstrap disks manifest.yml\n  bootstrap disks manifest.yml --orphaned\n  bootstrap disks attach manifest.yml disk-6b7c\n  bootstrap deploy manifest.yml",
	})
	list := listsDisks(c, &cobra.Command{
		Use:     "list {MANIFEST | --state FILE}",
		Short:   "The same as disks without a command",
		Example: "  bootstrap disks list manifest.yml --orphaned",
	})
	cmd.AddCommand(list, newDisksAttach(c), newDisksDelete(c), newDisksForget(c), newSnapshots(c))
	return cmd
}

// listsDisks completes a command that lists disks.
func listsDisks(c *cli.Console, cmd *cobra.Command) *cobra.Command {
	choice := stateChoice{c: c}
	orphaned := false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.Mistaken(cmd, args, 1); err != nil {
			return err
		}
		list, err := choice.disks(cmd, args)
		if err != nil {
			return err
		}
		if orphaned {
			list = slices.DeleteFunc(list, func(d observe.SeenDisk) bool { return d.Use != observe.DiskOrphan })
		}
		printDisks(c, list)
		return nil
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	cmd.Flags().BoolVar(&orphaned, "orphaned", false, "only orphaned disks")
	return cmd
}

// disks returns the disks of the state that was chosen, or of several instances.
func (s *stateChoice) disks(cmd *cobra.Command, args []string) ([]observe.SeenDisk, error) {
	all, list, chosen, err := s.recorded(cmd, args)
	switch {
	case err != nil:
		return nil, err
	case all != nil:
		return disksOfAll(s.c, all, list)
	}
	st, err := chosen.read(cmd.Context())
	if err != nil {
		return nil, err
	}
	return observe.Disks(st), nil
}

// recorded returns the record of several instances that was chosen, the selected ones of
// them, and where the record is; or if the record is nil, the state that was chosen.
func (s *stateChoice) recorded(cmd *cobra.Command, args []string) (all *record.Record, list []*record.Instance, one stateFile, err error) {
	from := s.one
	from.Manifest, from.StateFile = cli.Manifest(args), s.file
	opts := deployer.Options{Options: from}
	all, list, err = severalRecorded(cmd.Context(), s.c, &opts)
	switch {
	case err != nil:
	case all == nil:
		one, err = s.open(cmd, args)
	default:
		one.opts.Team = opts.Team
		one.path, err = file.Path(opts.Manifest, opts.StateFile)
	}
	return all, list, one, err
}

// severalRecorded returns the record of a deployment with several instances, and the
// instances that the options select; without a selection, all instances and the former
// ones. The record is nil if the options select one existing instance.
func severalRecorded(ctx context.Context, c *cli.Console, opts *deployer.Options) (*record.Record, []*record.Instance, error) {
	from := &opts.Options
	if from.Manifest == "-" || from.Manifest == "" && from.StateFile == "" {
		return nil, nil, nil
	}
	c.NameTarget(opts)
	if err := c.OpenStateStore(ctx, opts); err != nil {
		return nil, nil, err
	}
	if !record.Exists(from.RecordFolder()) {
		return nil, nil, nil
	}
	all, list, err := selectedWithFormer(from)
	if err == nil && from.Instance != "" && len(list) == 1 && !slices.Contains(all.Former, list[0]) {
		return nil, nil, nil
	}
	return all, list, err
}

// selectedWithFormer returns the record of a deployment, and the instances that the
// options select; without a selection, all instances and the former ones.
func selectedWithFormer(from *instance.Options) (*record.Record, []*record.Instance, error) {
	all, list, err := from.Selected()
	if err == nil && from.Instance == "" {
		list = slices.Concat(all.Instances, all.Former)
	}
	return all, list, err
}

// disksOfAll returns the disks of several instances. A disk that is attached to another
// instance is no orphan of the former one any more, also if a run was killed before it
// recorded that.
func disksOfAll(c *cli.Console, all *record.Record, of []*record.Instance) ([]observe.SeenDisk, error) {
	c.Start()
	home, err := c.BoshHome()
	if err != nil {
		return nil, err
	}
	var list []observe.SeenDisk
	used := map[string]bool{}
	for _, in := range of {
		disks, err := deployment.SeenDisks(all, in, home)
		if err != nil {
			return nil, err
		}
		for _, d := range disks {
			used[d.CID] = used[d.CID] || d.Use != observe.DiskOrphan
		}
		list = append(list, disks...)
	}
	return slices.DeleteFunc(list, func(d observe.SeenDisk) bool { return d.Use == observe.DiskOrphan && used[d.CID] }), nil
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
		Use:   "attach {MANIFEST | --state FILE} [GROUP/INDEX] CID",
		Short: "Make an orphaned disk the current one; the next deploy attaches it",
		Long: `Attach makes an orphaned disk the current disk again; the next deploy attaches it. It
refuses while another disk is the current one. With several instances, it attaches any
orphaned disk of the deployment to the instance that is named, whose current disk
becomes an orphan. An instance that was deleted is created again by the next deploy.`,
		Example: "  bootstrap disks attach manifest.yml disk-6b7c && bootstrap deploy manifest.yml\n  bootstrap disks attach cluster.yml web/1 disk-6b7c && bootstrap deploy cluster.yml",
	}, attachDisk, func(cmd *cobra.Command, opts *deployer.Options) {
		environment.AddFlag(cmd.Flags(), &opts.Inputs.FlagsFile)
		cli.StateFlag(cmd.Flags(), &opts.StateFile)
		cli.InstanceFlag(cmd.Flags(), &opts.Options)
		cli.LockFlag(cmd.Flags(), &opts.LockWait)
	})
}

// attachDisk makes an orphan the current disk of an instance.
func attachDisk(ctx context.Context, opts deployer.Options) error {
	if opts.Of == nil {
		return deployer.AttachDisk(ctx, opts)
	}
	dir, id := opts.Of.Record.Dir(), opts.Of.Instance.ID
	unlock, err := instances.Lock(ctx, dir, opts)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := opts.LoadRecord(dir) // Another run may have changed it before the lock.
	if err != nil {
		return err
	}
	in, found := all.ByID(id)
	if !found {
		return &instance.UnknownInstanceError{Instance: opts.Instance, Known: record.Names(all.Instances), Dir: dir}
	}
	if err := opts.Select(all, in); err != nil {
		return err
	}
	if err := deployer.AttachDisk(ctx, opts); err != nil {
		return err
	}
	return instances.DropAttached(ctx, opts, all)
}

// attachToFormer attaches an orphan to an instance that was deleted with its disks kept: the
// next deploy creates the instance again, with its id. done is false if the options name
// another instance.
func attachToFormer(cmd *cobra.Command, c *cli.Console, opts deployer.Options) (done bool, err error) {
	named := opts.Options
	named.Instance = ""
	of := opts
	of.Options = named
	all, _, err := severalRecorded(cmd.Context(), c, &of)
	if all == nil || err != nil {
		return err != nil, err
	}
	if _, found := all.Find(opts.Instance); found || formerOf(all, opts) == nil {
		return false, nil
	}
	return true, c.Deployment(cmd.Context(), of, func(ctx context.Context, of deployer.Options) error {
		unlock, err := instances.Lock(ctx, all.Dir(), of)
		if err != nil {
			return err
		}
		defer unlock()
		all, err := of.LoadRecord(all.Dir()) // Another run may have changed it before the lock.
		if err != nil {
			return err
		}
		one := of
		one.Instance, one.Disk = opts.Instance, opts.Disk
		former := formerOf(all, one)
		if _, found := all.Find(opts.Instance); found || former == nil {
			return errors.New("another run has changed the instances of the deployment: run the same command again")
		}
		// The record is written first: after a kill, the same command continues.
		in := all.Revive(former.ID)
		if err := all.Save(); err != nil {
			return err
		}
		err = one.Select(all, in)
		if err == nil {
			err = deployer.AttachDisk(ctx, one)
		}
		if err != nil {
			all.Retire(in.ID)
			return errors.Join(err, all.Save())
		}
		return instances.DropAttached(ctx, of, all)
	})
}

// formerOf returns the deleted instance that the options name, of several the one with the
// disk, or the one that was deleted last; nil: there is none.
func formerOf(all *record.Record, opts deployer.Options) *record.Instance {
	var found *record.Instance
	for _, in := range all.Former {
		if opts.Instance != in.Name() && opts.Instance != in.Group+"/"+in.ID {
			continue
		}
		st, _, err := all.ReadState(in, opts.Home)
		if err == nil && slices.ContainsFunc(st.Own.Orphans, func(o state.Orphan) bool { return o.CID == opts.Disk }) {
			return in
		}
		found = in
	}
	return found
}

func newDisksDelete(c *cli.Console) *cobra.Command {
	var ask cli.Asking
	return aboutDisk(c, &cobra.Command{
		Use:   "delete {MANIFEST | --state FILE} {CID | --older-than TIME}",
		Short: "Delete orphaned disks and their data",
		Long: `Delete deletes an orphaned disk, WITH ITS DATA, or all that have been orphaned for
longer than a time. On the machine that deployed, it needs neither the contents of the
manifest nor variables nor downloads. With the last disk of a deleted deployment it
removes the state file and the installed CPI.`,
		Example: "  bootstrap disks delete manifest.yml disk-6b7c\n  bootstrap disks delete manifest.yml --older-than 5d",
	}, deployer.DeleteDisk, func(cmd *cobra.Command, opts *deployer.Options) {
		diskFlags(c, cmd.Flags(), opts)
		ask.Flags(cmd.Flags())
		cmd.Flags().Var(&before{opts: opts}, "older-than", "all orphaned longer ago than this, for example 5d")
		cmd.PreRun = func(*cobra.Command, []string) { opts.Confirm = c.Confirm(ask) }
	})
}

// before is the flag --older-than.
type before struct {
	opts *deployer.Options
	age  values.Time
}

func (b *before) Type() string   { return b.age.Type() }
func (b *before) String() string { return "" }

// Set reads an age: disks that became orphans before are old enough.
func (b *before) Set(text string) error {
	err := b.age.Set(text)
	b.opts.OrphansBefore = time.Now().Add(-time.Duration(b.age))
	return err
}

// deleteOfSeveral deletes orphans of several instances: the one with the CID, or all old
// ones. done is false if the options are about one instance.
func deleteOfSeveral(cmd *cobra.Command, c *cli.Console, opts deployer.Options) (done bool, err error) {
	all, _, err := severalRecorded(cmd.Context(), c, &opts)
	if all == nil || err != nil {
		return err != nil, err
	}
	names := opts.Instance
	opts.Instance = ""
	return true, c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
		unlock, err := instances.Lock(ctx, all.Dir(), opts)
		if err != nil {
			return err
		}
		defer unlock()
		named := opts.Options
		named.Instance = names
		all, list, err := selectedWithFormer(&named) // Another run may have changed them before the lock.
		if err != nil {
			return err
		}
		if err := instances.DropAttached(ctx, opts, all); err != nil {
			return err
		}
		disks, err := disksOfAll(c, all, list)
		if err != nil {
			return err
		}
		var lines []string
		var of []*record.Instance
		for _, d := range disks {
			if d.CID != opts.Disk && (opts.Disk != "" || d.Use != observe.DiskOrphan || !d.Since.Before(opts.OrphansBefore)) {
				continue
			}
			if d.Use != observe.DiskOrphan {
				return fmt.Errorf("disk %s is the %s one of %s, not an orphan", d.CID, d.Use, d.Instance)
			}
			lines = append(lines, fmt.Sprintf("disk %s (%d MiB) of %s is deleted with its data", d.CID, d.Size, d.Instance))
			i := slices.IndexFunc(list, func(in *record.Instance) bool { return in.ID == d.InstanceID })
			if !slices.Contains(of, list[i]) {
				of = append(of, list[i])
			}
		}
		switch {
		case len(of) > 0:
		case opts.Disk != "":
			return fmt.Errorf("there is no disk %q: `bootstrap disks MANIFEST` lists those of the deployment", opts.Disk)
		default:
			c.Say(report.Info, "No orphaned disk is that old: nothing to delete")
			return nil
		}
		if err := cli.Agreed(ctx, opts.Confirm, deployer.Question{What: lines, Data: true}); err != nil {
			return err
		}
		for _, in := range of {
			if slices.Contains(all.Former, in) { // Its own events are deleted with its last disk.
				c.Changes.Several(opts.Home, all.Dir(), "delete orphaned disks of", in.Name())
			}
		}
		return instances.DeleteOrphans(ctx, opts, all, of)
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
		for _, name := range []string{"current", "older-than"} {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
				want = 0
			}
		}
		if cmd.Name() == "attach" && len(args) == 3 {
			opts.Instance, args = args[1], []string{args[0], args[2]}
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
		if cmd.Name() == "delete" {
			if done, err := deleteOfSeveral(cmd, c, opts); done {
				return err
			}
		}
		if cmd.Name() == "attach" && opts.Instance != "" {
			if done, err := attachToFormer(cmd, c, opts); done {
				return err
			}
		}
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
