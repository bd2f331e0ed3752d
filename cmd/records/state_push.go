package records

import (
	"context"
	"fmt"

	"bootstrap/cmd/cli"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/internal/atomicfile"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// push sends what this machine has, and the store lacks: the record, the states, the
// versions, the vars store and the state key. did is false if the store lacks nothing.
func (s stateFile) push(ctx context.Context, c *cli.Console, force bool) (did bool, err error) {
	t := s.opts.Team
	lost, err := team.Lost(t.Record().Vanished(ctx))
	if err != nil {
		return false, err
	}
	if lost != nil && !record.Exists(t.RecordFolder()) { // The history of the store may have it.
		if err := atomicfile.MkdirAll(t.RecordFolder(), 0o700); err != nil {
			return false, fmt.Errorf("cannot make the folder of this machine's copy of %s: %w", s.name, err)
		}
		opts := s.opts
		opts.Team = t.Record()
		if did, err = file.Push(ctx, force, opts); err != nil {
			return false, err
		}
	}
	err = s.eachPart(ctx, func(opts file.Options) error {
		pushed, err := file.Push(ctx, force, opts)
		did = did || pushed
		return err
	})
	if err != nil {
		return false, err
	}
	if record.Exists(t.RecordFolder()) {
		if err := deployment.PushVersions(ctx, s.place()); err != nil {
			return false, err
		}
	}
	secrets, err := instance.PutBackSecrets(ctx, t, c.Keys(), func(message string) { c.Say(report.Warning, message) })
	return did || secrets, err
}
