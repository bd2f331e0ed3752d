//go:build unix

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// many N COMMAND [ARG...] runs N processes in parallel. Each process gets its number as
// $N, and its own $MBUS_PORT and $PAGE_PORT. All of them must succeed; the output of the
// failed ones is shown.
func many(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: many N COMMAND [ARG...]")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ports, err := ownPorts(2 * n)
	ts.Check(err)
	program, err := exec.LookPath(args[1])
	ts.Check(err)
	outputs, errs := make([][]byte, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		cmd := exec.Command(program, args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "TESTDATA"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		cmd.Env = append(cmd.Env, fmt.Sprintf("N=%d", i), fmt.Sprintf("MBUS_PORT=%d", ports[2*i]), fmt.Sprintf("PAGE_PORT=%d", ports[2*i+1]))
		wg.Go(func() { outputs[i], errs[i] = cmd.CombinedOutput() })
	}
	wg.Wait()
	failed := 0
	for i, err := range errs {
		if err != nil {
			failed++
			fmt.Fprintf(ts.Stderr(), "process %d: %v\n%s\n", i, err, outputs[i])
			ts.Logf("process %d: %v\n%s", i, err, outputs[i])
		}
	}
	if failed > 0 {
		ts.Fatalf("%d of %d processes failed", failed, n)
	}
}

// ownPorts finds free ports above those of freePort and below those that the system uses
// for connections: so many ports would collide with those of freePort.
func ownPorts(n int) ([]int, error) {
	var list []int
	for port := 30000 + os.Getpid()%500; port < 32700 && len(list) < n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		list = append(list, port)
	}
	if len(list) < n {
		return nil, fmt.Errorf("only %d of %d ports are free", len(list), n)
	}
	return list, nil
}
