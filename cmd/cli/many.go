package cli

import (
	"context"
	"fmt"

	"bootstrap/deployer/report"
)

// ErrSaved ends a deploy that waits for jobs, because the next one has newer files.
var ErrSaved = fmt.Errorf("files have changed: %w", context.Canceled)

// Many begins a command that deploys again and again. The caller calls done after the
// last deploy.
func (c *Console) Many() (done func()) {
	c.end.again = true
	return func() { c.end.again, c.quiet = false, true }
}

// OneOfMany runs one of many deploys; show gets its events.
func (c *Console) OneOfMany(show func(report.Event), run func() error) error {
	all := c.Reports.show
	c.end.outcome, c.quiet, c.Reports.show = nil, false, show
	defer func() { c.Reports.show = all }()
	defer c.closeOpened()
	return run()
}
