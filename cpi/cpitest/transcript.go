package cpitest

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
)

//go:embed testdata/*.json
var testdata embed.FS

// Transcript is what one real CPI was seen to answer. Identifiers, times,
// passwords and folders are replaced by names in angle brackets.
type Transcript struct {
	Name       string     `json:"-"`
	Source     string     `json:"source"` // repository, commit, and what was behind the CPI
	Note       string     `json:"note"`
	APIVersion int        `json:"api_version"`
	Exchanges  []Exchange `json:"exchanges"` // in the order of the run
}

// Exchange is one call: Request, or Stdin where that was no request, and
// Stdout, or Text where that was no JSON. An exchange with Settings alone is
// what the CPI had told the agent of the VM by then.
type Exchange struct {
	Name     string          `json:"name"`
	Note     string          `json:"note,omitempty"`
	Request  json.RawMessage `json:"request,omitempty"`
	Stdin    *string         `json:"stdin_text,omitempty"`
	Stdout   json.RawMessage `json:"stdout,omitempty"`
	Text     *string         `json:"stdout_text,omitempty"`
	Exit     int             `json:"exit"`
	Settings map[string]any  `json:"settings,omitempty"`
}

// Transcripts returns all of them.
func Transcripts(t *testing.T) []Transcript {
	t.Helper()
	files, err := testdata.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var all []Transcript
	for _, file := range files {
		text, err := testdata.ReadFile(path.Join("testdata", file.Name()))
		transcript := Transcript{Name: strings.TrimSuffix(file.Name(), ".json")}
		if err == nil {
			err = json.Unmarshal(text, &transcript)
		}
		if err == nil && len(transcript.Exchanges) == 0 {
			err = fmt.Errorf("it has no exchanges")
		}
		if err != nil {
			t.Fatalf("cannot read the transcript %s: %v", file.Name(), err)
		}
		all = append(all, transcript)
	}
	return all
}
