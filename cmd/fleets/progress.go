package fleets

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/fleet/rollout"
)

// fleetRenderer returns a function that shows the events of a run. hide clears the
// redrawn lines for a question, and stop ends the function.
func fleetRenderer(ctx context.Context, c *cli.Console) (show func(rollout.Event), hide, stop func()) {
	c.ReportTo(c.Out()) // where finish prints the end of the command
	show, hide, stop = ui.FleetPlain(c.Writer(c.Out())), func() {}, func() {}
	if f := c.Canvas(c.Out()); f != nil {
		show, hide, stop = fleetTerminal(ctx, c, c.Out(), f)
	}
	if c.JSON() {
		show = ui.FleetJSON(c.Redactor.Lines(c.Out()))
	}
	if c.Events() == nil {
		return show, hide, stop
	}
	shown, record := show, ui.FleetJSON(c.Events())
	return func(e rollout.Event) {
		shown(e)
		record(e)
	}, hide, stop
}

func fleetTerminal(ctx context.Context, c *cli.Console, stream io.Writer, f *os.File) (show func(rollout.Event), hide, stop func()) {
	size := func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80, 24
		}
		return width, height
	}
	return ui.FleetTerminal(ctx, c.Writer(stream),
		func() int { w, _ := size(); return w },
		func() int { _, h := size(); return h })
}
