package deployment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
)

// A panic in the command about one instance is its failure, also in a goroutine of the
// command. The others go on, and the log of the instance has it.
func TestPanicOfOneInstance(t *testing.T) {
	t.Parallel()
	p := &Plan{Rows: []Row{
		{Name: "web/0", Action: Change, in: &record.Instance{ID: "0123456789", Group: "web"}},
		{Name: "web/1", Action: Change, in: &record.Instance{ID: "1123456789", Group: "web", Index: 1}},
	}}
	r := newRunner(Options{
		Report: func(Event) {}, Logs: t.TempDir(),
		Output: func(log io.Writer) (func(report.Event), func(error) error) {
			return func(report.Event) {}, func(err error) error {
				fmt.Fprint(log, err)
				return err
			}
		},
	}, &record.Record{}, p, t.TempDir())
	ctx, whole := guard.Begin(t.Context())
	for name, do := range map[string]func(context.Context, deployer.Options) error{
		"in the command": func(context.Context, deployer.Options) error { panic("a defect") },
		"in a goroutine": func(ctx context.Context, _ deployer.Options) error {
			guard.Go(ctx, func() { panic("a defect") })
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		err := r.inLog(ctx, &p.Rows[0], deployer.Options{}, do)
		if panicked, ok := errors.AsType[*guard.Panic](err); !ok || len(panicked.Stack) == 0 {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if ctx.Err() != nil || whole.Panic() != nil {
		t.Errorf("the run ends: %v", context.Cause(ctx))
	}
	if err := r.inLog(ctx, &p.Rows[1], deployer.Options{}, func(context.Context, deployer.Options) error { return nil }); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if text, err := os.ReadFile(r.logOf(&p.Rows[0])); err != nil || !strings.Contains(string(text), "a defect") {
		t.Errorf("its log has %q, %v", text, err)
	}
}
