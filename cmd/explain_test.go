package cmd

import (
	"encoding/json"
	"strings"
	"testing"

	"bootstrap/cmd/about"
	"bootstrap/cmd/explain"
)

// explain lists and prints pages, for people and programs, and a failed command names
// its page in both.
func TestExplain(t *testing.T) {
	pages := explain.Pages()
	code, out, errs := run(t, "explain")
	if code != 0 || errs != "" || strings.Count(out, "\n") != len(pages)+1 || !strings.Contains(out, "\nagent-silent ") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	code, out, _ = run(t, "explain", "agent-silent")
	if code != 0 || !strings.HasPrefix(out, "agent-silent\n\n  VM … exists but its agent does not answer: …\n") || !strings.Contains(out, "\nWhat to do:\n\n  - `bootstrap doctor MANIFEST`") || strings.Contains(out, "**") {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, out, _ = run(t, "explain", "NetworkReservationAlreadyInUse")
	if code != 0 || !strings.HasPrefix(out, "address-in-use\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
	code, out, _ = run(t, "explain", "75", "--json")
	var page about.Explanation
	line, result, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &page); err != nil || code != 0 || page.Name != "75" || !strings.HasPrefix(page.Summary, "Somebody else is at work") || !strings.Contains(page.Text, "--lock-wait") || !strings.Contains(result, `"kind":"result"`) {
		t.Errorf("exit code %d, %v, %s", code, err, out)
	}
	for name, want := range map[string]string{"agent-slient": `did you mean "agent-silent"?`, "12": "12 is not an exit code of bootstrap"} {
		if code, _, errs := run(t, "explain", name); code != 64 || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	for want, args := range map[string][]string{
		`name "nothing" ("bootstrap explain" lists all)`:  {"nothing"},
		`lists all); did you mean "agent-silent"?`:        {"agent-silnt"},
		"no error was named (the argument is empty)":      {""},
		"explain was given 2 arguments, and explains one": {"1", "2"},
	} {
		if code, _, errs := run(t, append([]string{"explain"}, args...)...); code != 64 || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	code, out, _ = run(t, "__complete", "explain", "state-")
	if code != 0 || !strings.Contains(out, "state-locked\tAnother run works on this deployment") || strings.Contains(out, "agent-silent") {
		t.Errorf("exit code %d, %s", code, out)
	}
	if _, _, errs := run(t, "status", "lost.yml"); !strings.HasSuffix(errs, "\nExplain: bootstrap explain state-missing\n\nExit code 66\n") {
		t.Error(errs)
	}
	if _, out, _ := run(t, "status", "lost.yml", "--json"); !strings.Contains(out, `"explain":"state-missing"`) {
		t.Error(out)
	}
	if _, _, errs := run(t, "status", "--nope"); strings.Contains(errs, "Explain:") {
		t.Error(errs)
	}
}
