package plan

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every cause has words, and they use only fields of Reason.
func TestCausesHaveWords(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	var causes []Cause
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ +Cause = "([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		causes = append(causes, Cause(m[1]))
	}
	if len(causes) < 70 {
		t.Errorf("%d causes", len(causes))
	}
	for _, c := range causes {
		r := Reason{Cause: c, Subject: "subject", From: "from", To: "to", Names: []string{"name"}, Count: 1, Why: []Reason{{Cause: NoVM}}}
		if text := r.String(); text == string(c) || text == "" || strings.ContainsAny(text, "{}") {
			t.Errorf("%s has the words %q", c, text)
		}
	}
	for c := range words {
		if !slices.Contains(causes, c) {
			t.Errorf("%s has words, and is no cause", c)
		}
	}
}

// If the value of a field contains text such as {to}, that is not replaced.
func TestFieldsAreNotReadAgain(t *testing.T) {
	if got := (Reason{Cause: ReleaseNew, Subject: "{to}", To: "{subject}"}).String(); got != "release {to}/{subject} is new" {
		t.Errorf("got %q", got)
	}
}
