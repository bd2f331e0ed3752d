package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"bootstrap/deployer/instance"
)

func TestTrace(t *testing.T) {
	t.Parallel()
	if trace, err := traceFrom(func(string) string { return "" }); trace != nil || err != nil {
		t.Fatalf("without variables there is a trace, or %v", err)
	}
	dir := t.TempDir()
	file, waits := filepath.Join(dir, "trace"), filepath.Join(dir, "waits")
	env := map[string]string{"BOOTSTRAP_TRACE": file, "BOOTSTRAP_WAIT_AT": "agent ping after 2", "BOOTSTRAP_WAIT_FILE": waits}
	trace, err := traceFrom(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 {
			trace(instance.Point{Kind: "agent", Method: "ping", Moment: "before"})
			trace(instance.Point{Kind: "agent", Method: "ping", Moment: "after"})
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		if _, err := os.Stat(waits); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not wait")
		}
	}
	select {
	case <-done:
		t.Fatal("it does not wait")
	default:
	}
	if err := os.Remove(waits); err != nil {
		t.Fatal(err)
	}
	<-done
	text, err := os.ReadFile(file)
	if want := "agent ping before 1\nagent ping after 1\nagent ping before 2\nagent ping after 2\n"; err != nil || string(text) != want {
		t.Errorf("got %q and %v, want %q", text, err, want)
	}
}
