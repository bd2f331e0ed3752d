package deployer

import (
	"strings"
	"testing"

	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/templates"
)

// An error that a deploy would certainly report is a problem; one that an unknown value
// may have caused is not.
func TestJudgeTemplates(t *testing.T) {
	t.Parallel()
	property := &templates.Failure{Release: "r", Job: "web", Template: "a", Message: "no value", Properties: []string{"port"}}
	link := &templates.Failure{Release: "r", Job: "web", Template: "a", Message: "there is no link", Link: true}
	other := &templates.Failure{Release: "r", Job: "web", Template: "a", Line: 3, Message: "no\nsuch method"}
	for _, c := range []struct {
		name            string
		failure         *templates.Failure
		partly, guessed bool
		generated       []string
		problem         bool
	}{
		{"a property is missing", property, true, true, []string{"x"}, true},
		{"a link is missing", link, false, true, []string{"x"}, true},
		{"a link is missing, and so are jobs", link, true, false, nil, false},
		{"anything else", other, true, false, nil, true},
		{"anything else, with an address that is made up", other, false, true, nil, false},
		{"anything else, with values that are made up", other, false, false, []string{"x"}, false},
	} {
		check := templateCheck{
			manifest: &manifest.Manifest{Generated: c.generated}, partly: c.partly, guessed: c.guessed,
			refs: []manifest.JobRef{{Name: "web", Release: "other"}, {Name: "web", Release: "r", Path: "instance_groups[0].jobs[1]", Pos: document.Position{File: "m.yml", Line: 7}}},
		}
		check.addFailure(c.failure)
		if (len(check.problems) == 1) != c.problem || len(check.problems)+len(check.doubtful) != 1 {
			t.Errorf("%s: problems %v, doubtful %v", c.name, check.problems, check.doubtful)
		}
		for _, p := range check.problems {
			if p.Path != "instance_groups[0].jobs[1]" || p.Pos.Line != 7 || strings.Contains(p.Message, "\n") {
				t.Errorf("%s: %+v", c.name, p)
			}
		}
	}
}
