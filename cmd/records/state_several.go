package records

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/internal/owner"
	"bootstrap/manifest/document"
)

// ofSeveral returns the place of a deployment with several instances, if the state
// belongs to such a deployment and no instance is selected. Its record may be missing if
// versions of it are kept.
func (s *stateChoice) ofSeveral(ctx context.Context, at stateFile) (place deployment.Place, several bool, err error) {
	if s.one.Instance != "" {
		return place, false, nil
	}
	place = at.place()
	if place.Opts.Team == nil {
		place.Name = place.Dir()
	}
	if at.hasRecord() {
		return place, true, nil
	}
	several, err = place.HasVersions(ctx)
	return place, several, err
}

// printVersions prints the versions of a deployment.
func printVersions(ctx context.Context, c *cli.Console, place deployment.Place) error {
	list, present, err := place.Versions(ctx)
	if err != nil {
		return err
	}
	views := make([]ui.Backup, len(list))
	for i, v := range list {
		views[i] = versionView(v, present && i == 0)
	}
	showBackups(c, views)
	return nil
}

func versionView(v *record.Version, present bool) ui.Backup {
	view := ui.Backup{Serial: v.Serial, Written: v.Written, By: v.By, Command: v.Command, Path: v.Path, Present: present, Owned: []string{}, Only: v.Only}
	if v.Err != nil {
		view.Error = v.Err.Error()
		return view
	}
	view.Finished = deployment.Finished(v)
	view.Instances = record.Names(v.Record.Instances)
	view.Owned = append(view.Owned, deployment.Owned(v)...)
	return view
}

// diffVersions prints how a version of a deployment differs from another one, or from the
// present one.
func diffVersions(ctx context.Context, c *cli.Console, place deployment.Place, serials []int) error {
	list, _, err := place.Versions(ctx)
	if err != nil {
		return err
	}
	var sides []*record.Version
	for _, serial := range serials {
		v, err := place.Find(list, serial)
		if err != nil {
			return err
		}
		sides = append(sides, v)
	}
	if len(sides) == 1 {
		now, err := place.Present()
		if err != nil {
			return err
		}
		sides = append(sides, now)
	}
	differences, err := deployment.Compare(sides[0], sides[1])
	if err != nil {
		return err
	}
	views := make([]DifferenceView, len(differences))
	for i, d := range differences {
		views[i] = DifferenceView{Instance: d.Instance, Path: d.Path, Change: d.Kind, Old: d.Old, New: d.New}
	}
	showDifferences(c, views)
	return nil
}

// restoreVersion restores a version of a deployment.
func restoreVersion(ctx context.Context, c *cli.Console, place deployment.Place, serial int, force bool) error {
	began := time.Now()
	done, err := deployment.Restore(ctx, place, serial, force)
	if err != nil {
		return err
	}
	c.Changes.Several(place.Opts.Home, place.Dir(), "restore", fmt.Sprintf("version %d", serial))
	c.KeepChanges(began, nil)
	owner.GiveBack(place.Opts.Home)
	for _, note := range done.Notes {
		c.Say(report.Info, note)
	}
	text := fmt.Sprintf("Restored version %d of %s", serial, strings.Join(record.Names(done.Version.Record.Instances), ", "))
	if done.Before != nil && done.Before.Serial != done.Version.Serial {
		text += fmt.Sprintf("; the current one was version %d", done.Before.Serial)
	}
	return printDone(c, true, text, "")
}

// line returns a difference for people.
func (d DifferenceView) line() string {
	text := document.Difference{Path: d.Path, Kind: d.Change, Old: d.Old, New: d.New}.String()
	if d.Instance != "" {
		mark, rest, _ := strings.Cut(text, " ")
		text = mark + " " + d.Instance + ": " + rest
	}
	return text
}
