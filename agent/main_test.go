package agent_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// No client may use this proxy of the environment.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "BOSH_ALL_PROXY"} {
		if err := os.Setenv(name, "http://proxy.invalid:1"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}
