package network

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// For every kind of reason there is a text, which uses only fields of a reason.
func TestReasonsHaveWords(t *testing.T) {
	source, err := os.ReadFile("decision.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\t\w+ +ReasonKind = "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) != len(words) {
		t.Errorf("%d kinds, and words for %d", len(kinds), len(words))
	}
	for _, m := range kinds {
		r := Reason{Kind: ReasonKind(m[1]), From: "from", To: "to"}
		if text := r.String(); text == m[1] || strings.ContainsAny(text, "{}") {
			t.Errorf("%s has the words %q", m[1], text)
		}
	}
}
