// Package access works on a VM whose agent answers: it logs in, and fetches,
// shows and follows logs.
package access

import (
	"context"
	"net"

	"bootstrap/agent"
	"bootstrap/deployer/report"
)

// VM is a VM whose agent answers.
type VM struct {
	CID        string
	Agent      *agent.Client
	Deployment string
	Group      string                                                               // the instance group
	Instance   string                                                               // its name: web/0
	Dir        string                                                               // folder of the deployment, for records of logins
	Dial       func(ctx context.Context, network, address string) (net.Conn, error) // nil: directly
	Redact     func(string) string
	Report     *report.Stage // report of the run
}
