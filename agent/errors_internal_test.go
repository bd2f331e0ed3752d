package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// An error contains the beginning of a long exception. The jobs that the
// exception names are recognized even if their names are secrets, too.
func TestException(t *testing.T) {
	t.Parallel()
	c, err := New(Config{URL: "https://mbus:one@10.0.0.1:6868", Redact: func(text string) string { return strings.ReplaceAll(text, "two", "***") }})
	if err != nil {
		t.Fatal(err)
	}
	e := c.exception("run_script", "run scripts", &Exception{Message: "Action Failed get_task: Task x result: 2 of 3 pre-start scripts failed. Failed Jobs: one, two.0. Successful Jobs: three."})
	if !slices.Equal(e.Jobs, []string{"one", "two.0"}) || strings.Contains(e.Error(), "one") || strings.Contains(e.Error(), "two") {
		t.Errorf("%q of %v", e.Jobs, e)
	}
	long := c.exception("stop", "stop", &Exception{Message: strings.Repeat("é", 1<<20)})
	if text := long.Error(); len(text) > maxMessage+100 || !strings.HasSuffix(text, fmt.Sprintf("… (%d more bytes)", 2<<20-maxMessage)) {
		t.Errorf("%d bytes, ending with %q", len(text), text[len(text)-50:])
	}
}
