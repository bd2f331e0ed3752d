package ui

import (
	"encoding/json"
	"io"

	"bootstrap/deployer"
)

// JSON returns a renderer of events as JSON, one object per line.
func JSON(out *Writer) func(deployer.Event) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return func(e deployer.Event) {
		// A stream that cannot be written to has nobody who reads it.
		_ = enc.Encode(e)
	}
}

// Result is the last line of the JSON output.
type Result struct {
	Kind     string          `json:"kind"` // "result"
	Status   deployer.Status `json:"status"`
	ExitCode int             `json:"exit_code"`
	Error    string          `json:"error,omitempty"`
	Hint     string          `json:"hint,omitempty"`
}

// JSONResult prints how the run ended.
func JSONResult(out io.Writer, code int, err error, hint string) {
	r := Result{Kind: "result", Status: deployer.Finished, ExitCode: code, Hint: hint}
	if err != nil {
		r.Status, r.Error = deployer.Failed, err.Error()
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(r)
}
