package deployment

import "testing"

// What follows a failure with lines of a log is not a part of the last of these lines.
func TestEndedError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  EndedError
		want string
	}{
		{EndedError{Failures: []string{"a: no", "b: no"}, Left: 2},
			`the deployment "web" is not as the manifest says: a: no; b: no; 2 instances were not started; the same command does what is left`},
		{EndedError{Failures: []string{"a: no; the last lines:\n  x", "b: no"}},
			"the deployment \"web\" is not as the manifest says: a: no; the last lines:\n  x\nb: no\nthe same command does what is left"},
		{EndedError{Failures: []string{"a: no", "b: no"}, Continued: true},
			"the deployment \"web\" is not as the manifest says:\n- a: no\n- b: no\nthe same command does what is left"},
		{EndedError{Does: Restart, Failures: []string{"a: no"}, Left: 1},
			`cannot restart all instances of the deployment "web": a: no; 1 were left as they are; run the same command again when that is fixed`},
	} {
		c.err.Deployment = "web"
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
