package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"bootstrap/deployer"
	"bootstrap/deployer/plan"
	"bootstrap/deployment/record"
)

// Saved is a saved plan of a deployment with several instances. It has the digests of its
// inputs, so that a deploy runs exactly this plan or refuses.
type Saved struct {
	Format     int                          `json:"format"`  // that of the plans of instances
	Several    bool                         `json:"several"` // true: it is no plan of one instance
	Deployment string                       `json:"deployment"`
	Salt       string                       `json:"salt"`
	Inputs     string                       `json:"inputs"`    // digest of manifest, operations and variables
	Record     string                       `json:"record"`    // digest of the record before the deploy
	Instances  []*record.Instance           `json:"instances"` // the record during the deploy
	Plan       *Plan                        `json:"plan"`
	Plans      map[string]deployer.PlanFile `json:"plans"` // of the instances, by id
}

// Save returns the plan for a file.
func (p *Plan) Save(ctx context.Context, opts deployer.Options, old *record.Record, draft *Draft) (*Saved, error) {
	s := &Saved{
		Format: deployer.PlanFormat, Several: true, Deployment: p.Deployment, Salt: plan.NewSalt(),
		Instances: draft.Record.Instances, Plan: p, Plans: p.plans,
	}
	var err error
	if s.Record, err = digestOf(old); err == nil {
		s.Inputs, err = deployer.InputsDigest(ctx, opts, s.Salt)
	}
	return s, err
}

// Whole reports whether nothing lacks that Save writes.
func (s *Saved) Whole() bool { return s.Plan != nil && !slices.Contains(s.Instances, nil) }

// Asked returns the flags with which the plan was made; all instances have the same ones.
func (s *Saved) Asked() (asked plan.Asked) {
	for _, of := range s.Plans {
		asked = of.Asked
	}
	return asked
}

// digestOf returns the digest of a record.
func digestOf(r *record.Record) (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("cannot compare the record of the deployment: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// CheckInputs refuses the plan if the inputs or the record have changed since. It runs
// before variables are generated. Without a plan it refuses nothing; so do the other checks.
func (s *Saved) CheckInputs(ctx context.Context, opts deployer.Options, old *record.Record) error {
	if s == nil {
		return nil
	}
	digest, err := digestOf(old)
	if err != nil {
		return err
	}
	if digest != s.Record {
		return &plan.MovedError{What: "the record of the instances of the deployment has changed since the plan was made, or the plan is for another deployment"}
	}
	if digest, err = deployer.InputsDigest(ctx, opts, s.Salt); err != nil {
		return err
	}
	if digest != s.Inputs {
		return &plan.MovedError{What: "the manifest, its operations or its variables have changed since the plan was made"}
	}
	return deployer.OfAnotherThan(ctx, s.Deployment, opts.Manifest, opts.Inputs)
}

// id returns the id that a new instance has in the plan; empty: it has none.
func (s *Saved) id(name string) string {
	if s == nil {
		return ""
	}
	i := slices.IndexFunc(s.Instances, func(in *record.Instance) bool { return in.Name() == name })
	if i < 0 {
		return ""
	}
	return s.Instances[i].ID
}

// Check refuses the plan if it differs from the plan that was made now.
func (s *Saved) Check(p *Plan, draft *Draft) error {
	if s == nil {
		return nil
	}
	for _, name := range []string{s.Deployment, s.Plan.Deployment} {
		if err := deployer.OfAnother(name, p.Deployment); err != nil {
			return err
		}
	}
	for _, in := range draft.Record.Instances {
		i := slices.IndexFunc(s.Instances, func(was *record.Instance) bool { return was.ID == in.ID })
		if i < 0 || !reflect.DeepEqual(s.Instances[i], in) {
			return &plan.MovedError{What: in.Name() + " would get another zone, address or disk"}
		}
	}
	if len(s.Instances) != len(draft.Record.Instances) {
		return &plan.MovedError{What: fmt.Sprintf("it has %d instances, and %d are planned", len(s.Instances), len(draft.Record.Instances))}
	}
	for i, row := range p.Rows {
		was, now := s.Plans[row.ID], p.plans[row.ID]
		if err := was.Moved(row.Name, now); err != nil {
			return err
		}
		if i >= len(s.Plan.Rows) || s.Plan.Rows[i].Name != row.Name || s.Plan.Rows[i].Action != row.Action {
			return &plan.MovedError{What: row.Name + " is not selected as it was, or has another action"}
		}
	}
	if !reflect.DeepEqual(s.Plan.Gone, p.Gone) || !reflect.DeepEqual(s.Plan.Create, p.Create) || !reflect.DeepEqual(s.Plan.PostDeploy, p.PostDeploy) || !reflect.DeepEqual(s.Plan.Stages, p.Stages) {
		return &plan.MovedError{What: "the order is different"}
	}
	return nil
}
