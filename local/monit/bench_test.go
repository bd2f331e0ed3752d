//go:build unix

package monit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bootstrap/internal/monitfile"
)

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "check process p%d\n  with pidfile /var/vcap/sys/run/p/p%[1]d.pid\n  start program \"/var/vcap/jobs/p/bin/ctl start\" with timeout 60 seconds\n"+
			"  stop program \"/var/vcap/jobs/p/bin/ctl stop\"\n  group vcap\n  if totalmem > 500 Mb for 5 cycles then restart\n", i)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := monitfile.Parse("b", []byte(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPass measures a look at 50 running services, as in each cycle.
func BenchmarkPass(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "pid")
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		b.Fatal(err)
	}
	var checks []monitfile.Check
	for i := range 50 {
		checks = append(checks, monitfile.Check{Kind: monitfile.KindProcess, Name: strconv.Itoa(i), PidFile: path})
	}
	s := New(b.Context(), Config{Cycle: time.Hour})
	defer s.Close()
	if err := s.Load(checks); err != nil {
		b.Fatal(err)
	}
	s.Start()
	for Summary(s.Status()) != StateRunning {
		s.pass()
	}
	for b.Loop() {
		s.pass()
	}
}
