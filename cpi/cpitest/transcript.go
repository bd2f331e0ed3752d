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

// Transcript contains recorded answers of one real CPI. Names in angle brackets
// replace identifiers, times, passwords and folders.
type Transcript struct {
	Name       string     `json:"-"`
	Source     string     `json:"source"` // repository and commit of the CPI, and the cloud that it used
	Note       string     `json:"note"`
	APIVersion int        `json:"api_version"`
	Exchanges  []Exchange `json:"exchanges"` // in the order in which they were recorded
}

// Exchange is one call. Its input is Request, or Stdin if the input was not a request;
// its output is Stdout, or Text if the output was not JSON. An exchange that has only
// Settings contains the settings that the CPI had given to the agent so far.
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

// Transcripts returns all transcripts.
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
