//go:build unix

package document

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/internal/guard"
)

// A pipe is read if a program writes to it; otherwise the wait ends.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	_, err := readPipe(t.Context(), "the cloud provider", path, path, time.Millisecond, time.Hour)
	if err == nil || !strings.Contains(err.Error(), "cannot read the cloud provider "+path+": it is a pipe that no program has opened for writing within 1ms") {
		t.Error(err)
	}
	write, err := os.OpenFile(path, os.O_RDWR, 0o600) // waits for nobody; the reader above ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	_, err = readPipe(t.Context(), "the manifest", path, path, time.Hour, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "it is a pipe that did not end within 1ms") {
		t.Error(err)
	}
}

// Pipes and standard input are read once, also if the names of links need a second reading.
func TestPipesAreReadOnce(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	written := guard.Start(t.Context(), func() error { return os.WriteFile(pipe, []byte("host: a.example.com\n"), 0) })
	opts := Options{
		VarsStore: filepath.Join(t.TempDir(), "creds.yml"), VarsFiles: []string{pipe}, Generate: Write, Pipes: &Pipes{},
		Stdin: strings.NewReader("host: ((host))\nvariables:\n- {name: tls, type: certificate, options: {is_ca: true, common_name: ((host))}, consumes: {alternative_name: {from: web}}}\n"),
	}
	again := opts
	again.Generate = Plan
	var host string
	opts.LinkNames = func(ctx context.Context, wishes []LinkWish) ([]LinkNames, error) {
		_, err := Read(ctx, "-", again, func(top Value) { host = top.Get("host").Scalar() })
		return make([]LinkNames, len(wishes)), err
	}
	_, err := Read(t.Context(), "-", opts, func(Value) {})
	if err != nil || <-written != nil || host != "a.example.com" {
		t.Errorf("%q, %v", host, err)
	}
}
