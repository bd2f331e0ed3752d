//go:build linux || darwin

package agent

import (
	"bytes"
	"net/http"
	"testing"
)

// BenchmarkGetState measures get_state, the message that a deploy sends most often.
func BenchmarkGetState(b *testing.B) {
	m := startMachine(b)
	m.must("apply", m.specOf(map[string]files{"web": daemon("web")}))
	for b.Loop() {
		m.must("get_state")
	}
}

// BenchmarkTask measures a task from its message to its result.
func BenchmarkTask(b *testing.B) {
	m := startMachine(b)
	m.must("apply", m.specOf(map[string]files{"web": {"x:bin/x": "#!/bin/sh\n"}}))
	for b.Loop() {
		m.must("run_script", "x", map[string]any{})
	}
}

func BenchmarkPutBlob(b *testing.B) {
	m := startMachine(b)
	data := bytes.Repeat([]byte("x"), 64<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if status, text := m.do(http.MethodPut, "/blobs/00/x", bytes.NewReader(data)); status != http.StatusCreated {
			b.Fatal(status, text)
		}
	}
}
