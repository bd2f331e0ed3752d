package deployer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"bootstrap/cpi"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// stemcells uploads and deletes stemcells.
type stemcells struct {
	*work
	cpi  *instance.CPI
	gone string // CID of the recorded stemcell that must be uploaded again
	made bool   // this run has uploaded the stemcell
}

// upload uploads the stemcell to the cloud, once per name and version, and again if it
// does not exist there any more. A light stemcell only names an image of the cloud. It is
// sent to the CPI again before the running VM is deleted: the CPI returns an error if the
// image does not exist.
func (ss *stemcells) upload(ctx context.Context, step plan.Step) error {
	sc := ss.artifacts.Stemcell
	return ss.rec.Out.Do(fmt.Sprintf("Uploading stemcell '%s/%s'", sc.Name, sc.Version), func(s *report.Stage) error {
		release, err := ss.rec.LockSiblings(ctx)
		if err != nil {
			return err
		}
		defer release()
		st := ss.rec.State.Get()
		made := state.Stemcell{Name: sc.Name, Version: sc.Version, APIVersion: sc.APIVersion}
		if known := st.FindStemcell(sc.Name, sc.Version); known != nil {
			switch {
			case known.CID == ss.gone:
				made.ID = known.ID
			case !step.With.Again:
				return report.Skip("Stemcell already uploaded")
			}
		}
		if by, shared, ok := ss.rec.SiblingStemcell(sc.Name, sc.Version, ss.gone); ok && made.ID == "" && !step.With.Again {
			made = shared
			made.ID = uuid.NewString()
			if err := ss.rec.State.Update(func(st *state.State) error { st.Stemcells = append(st.Stemcells, made); return nil }); err != nil {
				return err
			}
			return report.Skip(fmt.Sprintf("the instance %s has uploaded it", by))
		}
		dir, err := os.MkdirTemp(ss.rec.Dir, "stemcell-")
		if err != nil {
			return fmt.Errorf("cannot make a folder for the stemcell: %w", err)
		}
		defer os.RemoveAll(dir)
		image, err := sc.Extract(ctx, filepath.Join(dir, "content"), s.Progress)
		if err != nil {
			return err
		}
		in := state.Intent{Method: "create_stemcell", Stemcell: &made}
		_, err = ss.journal.Create(ctx, in, func(c *cpi.Client) (string, error) {
			return c.CreateStemcell(ctx, image, sc.CloudProperties, ss.in.Manifest.Tags)
		})
		ss.made = err == nil
		return err
	})
}

// look asks the CPI whether the recorded stemcell exists, if the CPI has a method for
// that.
func (ss *stemcells) look(ctx context.Context) error {
	st := ss.rec.State.Get()
	known := st.FindStemcell(ss.artifacts.Stemcell.Name, ss.artifacts.Stemcell.Version)
	if known == nil {
		return nil
	}
	c, err := ss.cpi.Client(ctx)
	if err != nil {
		return err
	}
	there, told, err := c.HasStemcell(ctx, known.CID)
	if err == nil && told && !there {
		ss.miss(known.CID)
	}
	return err
}

// miss warns that the stemcell does not exist any more, and makes the run upload it
// again.
func (ss *stemcells) miss(cid string) {
	ss.gone = cid
	ss.rec.Out.Warning(fmt.Sprintf("stemcell %s is recorded, but the CPI says that it does not exist: uploading it again", cid))
}
