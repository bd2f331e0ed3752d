package cpi

import (
	"context"
	"slices"
	"testing"
)

func TestTrace(t *testing.T) {
	var got []string
	c := New(Config{
		Path: program(t, infoV2, `sleep 600`),
		Env:  client("").cfg.Env,
		Trace: func(method, moment string, kill func()) {
			got = append(got, method+" "+moment)
			if method == "has_vm" && moment == "running" {
				kill()
			}
		},
	})
	if _, err := c.HasVM(context.Background(), "vm"); err == nil {
		t.Error("a call whose process was killed went well")
	}
	want := []string{"info before", "info running", "info after", "has_vm before", "has_vm running", "has_vm after"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
