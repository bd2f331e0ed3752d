package agenttest_test

import (
	"testing"

	"bootstrap/agent/agenttest"
)

// TestReal runs the suite against the agent that FromEnv describes.
func TestReal(t *testing.T) {
	target, ok := agenttest.FromEnv(t)
	if !ok {
		t.Skip("BOOTSTRAP_AGENT_URL names no agent")
	}
	agenttest.Run(t, target)
}
