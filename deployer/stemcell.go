package deployer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/artifact"
	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

func (r *run) currentStemcell() *state.Stemcell {
	st := r.state.Get()
	return st.Stemcell()
}

// uploadStemcell uploads the stemcell to the cloud, once per name and version,
// and again if it does not exist there any more.
func (r *run) uploadStemcell(ctx context.Context) error {
	sc := r.stemcell
	return r.do(fmt.Sprintf("Uploading stemcell '%s/%s'", sc.Name, sc.Version), func(s *report.Stage) error {
		st := r.state.Get()
		made := state.Stemcell{Name: sc.Name, Version: sc.Version, APIVersion: sc.APIVersion}
		if known := st.FindStemcell(sc.Name, sc.Version); known != nil {
			switch {
			case known.CID == r.stemcellGone:
				made.ID = known.ID
			case !r.checksLight():
				return report.Skip("Stemcell already uploaded")
			}
		}
		dir, err := os.MkdirTemp(r.dir, "stemcell-")
		if err != nil {
			return fmt.Errorf("cannot make a folder for the stemcell: %w", err)
		}
		defer os.RemoveAll(dir)
		image, err := sc.Extract(ctx, filepath.Join(dir, "content"), s.Progress)
		if err != nil {
			return err
		}
		in := state.Intent{Method: "create_stemcell", Stemcell: &made}
		_, err = r.journal.Create(ctx, in, func(c *cpi.Client) (string, error) { return c.CreateStemcell(ctx, image, sc.CloudProperties) })
		r.stemcellMade = err == nil
		return err
	})
}

// checksLight reports whether the CPI gets a light stemcell again before the
// running VM is deleted. A light stemcell only names an image of the cloud: the
// CPI looks for the image, and returns an error if it does not exist.
func (r *run) checksLight() bool {
	return isLight(r.stemcell) && r.plan.On(plan.VM) == plan.Replace
}

// isLight reports whether a stemcell only names an image of the cloud.
func isLight(sc *artifact.Stemcell) bool {
	return slices.ContainsFunc(sc.Formats, func(f string) bool { return strings.HasSuffix(f, "-light") })
}

// lookForStemcell asks the CPI whether the recorded stemcell exists, if the CPI
// can tell.
func (r *run) lookForStemcell(ctx context.Context) error {
	st := r.state.Get()
	known := st.FindStemcell(r.stemcell.Name, r.stemcell.Version)
	if known == nil || !r.plan.NewVM() {
		return nil
	}
	c, err := r.cpi(ctx)
	if err != nil {
		return err
	}
	there, told, err := c.HasStemcell(ctx, known.CID)
	if err == nil && told && !there {
		r.missStemcell(known.CID)
	}
	return err
}

// missStemcell warns that the stemcell does not exist any more, and makes the
// run upload it again.
func (r *run) missStemcell(cid string) {
	r.stemcellGone = cid
	r.root.Warning(fmt.Sprintf("stemcell %s is recorded, but the CPI says that it does not exist: uploading it again", cid))
}

// cleanUp deletes unused things, and looks again at leftovers of earlier runs
// if the CPI is connected anyway.
func (r *run) cleanUp(ctx context.Context) error {
	if err := r.deleteUnused(ctx); err != nil {
		return err
	}
	return r.journal.LookAtLeftovers(ctx)
}

// deleteUnused deletes the disks and stemcells that the state owns and that are
// not current. The deploy has succeeded, so a failure is only a warning, and
// the next run tries again.
func (r *run) deleteUnused(ctx context.Context) error {
	st := r.state.Get()
	for _, d := range st.Disks {
		switch {
		case d.ID == st.CurrentDiskID:
		default:
			err := r.freeDisk(ctx, d.CID)
			switch {
			case err != nil:
			case r.opts.KeepOldDisk:
				err = r.keepUnused(d)
			default:
				err = r.deleteDisk(ctx, r.root, "Deleting unused disk '%s'", d)
			}
			r.warn(err)
		}
	}
	for _, sc := range st.Stemcells {
		if sc.ID != st.CurrentStemcellID && (st.Own.Swap == nil || sc.ID != st.Own.Swap.StemcellID) {
			r.warn(r.deleteStemcell(ctx, r.root, "Deleting unused stemcell '%s'", sc))
		}
	}
	return nil
}

// keepUnused keeps a disk as an orphan: the one that this run or an interrupted
// run has migrated from.
func (r *run) keepUnused(d state.Disk) error {
	return r.state.Update(func(st *state.State) error {
		st.Orphan(d, "kept with --keep-old-disk; disk "+plan.CurrentDisk(*st)+" is in use instead", time.Now())
		return nil
	})
}

func (r *run) warn(err error) {
	if err != nil {
		r.root.Warning(err.Error() + "; it stays recorded and the next run tries again")
	}
}

func (r *run) deleteStemcell(ctx context.Context, in *report.Stage, title string, sc state.Stemcell) error {
	return in.Do(fmt.Sprintf(title, sc.CID), func(*report.Stage) error {
		in := state.Intent{Method: "delete_stemcell", CID: sc.CID}
		call := func(c *cpi.Client) error { return c.DeleteStemcell(ctx, sc.CID) }
		return r.journal.Delete(ctx, in, call)
	})
}

// deleteStemcells deletes every stemcell the state owns, the current one
// first.
func (r *run) deleteStemcells(ctx context.Context) error {
	st := r.state.Get()
	if sc := st.Stemcell(); sc != nil {
		if err := r.deleteStemcell(ctx, r.stage, "Deleting stemcell '%s'", *sc); err != nil {
			return err
		}
	}
	for _, sc := range r.state.Get().Stemcells {
		if err := r.deleteStemcell(ctx, r.stage, "Deleting unused stemcell '%s'", sc); err != nil {
			return err
		}
	}
	return nil
}
