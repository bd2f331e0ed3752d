package deployer

import (
	"fmt"
	"strings"
	"testing"

	"bootstrap/agent"
)

// TestCompileError has messages of real agents about failed packaging scripts.
func TestCompileError(t *testing.T) {
	t.Parallel()
	const said = "Compiling package web: Running packaging script: Running packaging script: Command exited with "
	var long strings.Builder
	for i := range 40 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	for name, c := range map[string]struct{ message, want string }{
		"both": {
			said + "2; Stdout: one\ntwo\n, Stderr: + make\nmake: no rule\n",
			"package web of release r fails to compile (exit code 2); SERVICE\nIts standard error:\n  + make\n  make: no rule\nIts standard output:\n  one\n  two",
		},
		"cut by the agent": {
			said + "1; Truncated stdout: one, Truncated stderr: + x",
			"package web of release r fails to compile (exit code 1); SERVICE\nIts standard error:\n  + x\nIts standard output:\n  one",
		},
		"nothing printed": {said + "-1; Stdout: , Stderr: ", "package web of release r fails to compile (exit code -1); SERVICE"},
		"trimmed":         {said + "3; Stdout: x, Stderr:", "package web of release r fails to compile (exit code 3); SERVICE\nIts standard output:\n  x"},
		"long": {
			said + "3; Stdout: " + long.String() + ", Stderr: ",
			"package web of release r fails to compile (exit code 3); SERVICE\nThe end of its standard output:\n  line 25\n  line 26\n  line 27\n  line 28\n  line 29\n  line 30\n  line 31\n  line 32\n  line 33\n  line 34\n  line 35\n  line 36\n  line 37\n  line 38\n  line 39",
		},
		"no script": {
			"Compiling package web: Fetching package web: no such blob",
			"package web of release r fails to compile: Compiling package web: Fetching package web: no such blob; SERVICE",
		},
	} {
		err := &CompileError{Package: "web", Release: "r", Service: "SERVICE", Err: &agent.Error{Method: "compile_package", Message: c.message}}
		if err.Error() != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, err, c.want)
		}
	}
}
