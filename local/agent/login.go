package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"bootstrap/local/machine"
	"bootstrap/local/sshd"
)

// ServeLogin serves the SSH connection that is this process's standard input, in a
// VM of a stemcell. dir is the VM's folder there.
func ServeLogin(ctx context.Context, dir string, log io.Writer) error {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return fmt.Errorf("cannot serve a login: %w", err)
	}
	_ = os.Stdin.Close()
	server := sshd.New(ctx, sshd.Config{VM: machine.Inside(dir), Log: slog.New(slog.NewTextHandler(log, nil))})
	defer server.Close()
	return server.ServeStemcell(conn)
}
