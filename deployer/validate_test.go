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
	unknown := &templates.Failure{Release: "r", Job: "web", Template: "a", Line: 3, Message: "no\nsuch method", Doubtful: true}
	for _, c := range []struct {
		name    string
		failure *templates.Failure
		partly  bool
		problem bool
	}{
		{"a property is missing", property, true, true},
		{"a link is missing", link, false, true},
		{"a link is missing, and so are jobs", link, true, false},
		{"anything else", other, true, true},
		{"anything that depends on unknown values", unknown, false, false},
	} {
		check := templateCheck{
			manifest: &manifest.Manifest{}, partly: c.partly,
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
