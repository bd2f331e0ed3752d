package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// Execute runs the command of the arguments and prints its end, even after a panic.
func (c *Console) Execute(root *cobra.Command) (code int) {
	defer c.closeOpened()
	err := guard.Call(func() error {
		code = c.finish(c.runCommand(root))
		return nil
	})
	if err != nil {
		code = c.finish(err)
	}
	return code
}

// closeOpened closes what the command, or one deploy of many, has opened.
func (c *Console) closeOpened() {
	for _, closeIt := range c.closers {
		closeIt()
	}
	c.closers = nil
}

// runCommand runs the command of the arguments.
func (c *Console) runCommand(root *cobra.Command) error {
	// Log messages of other packages, such as net/http, must not get into the
	// output.
	log.SetFlags(0)
	log.SetOutput(io.Discard)
	var text bytes.Buffer       // help and version
	line, _ := c.FullLine(root) // checkArgs reports the error.
	root.SetArgs(line.Args)
	root.SetIn(c.Stdin)
	root.SetOut(&text)
	root.SetErr(c.Writer(c.Stderr))
	root.InitDefaultCompletionCmd() // it keeps the output that is set now
	if shells, _, err := root.Find([]string{"completion"}); err == nil && shells != root {
		// Without this, an unknown shell would be no error.
		shells.Args, shells.RunE = NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	err := c.Signals.until(func(ctx context.Context) error {
		defer wait.Remind(ctx, time.Second, time.Second, c.Reports.screens.Tick)()
		cmd, err := root.ExecuteContextC(ctx)
		if err != nil && !c.line.understood {
			err = WrongUsage(cmd, err)
		}
		// The wait for an input, such as a pipe, was interrupted.
		if _, reported := errors.AsType[*report.InterruptedError](err); !reported && errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = &report.InterruptedError{Look: true}
		}
		return err
	})
	if text.Len() > 0 {
		c.Product("text", text.String())
	}
	return err
}
