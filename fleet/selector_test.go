package fleet

import (
	"strings"
	"testing"
)

func TestSelectors(t *testing.T) {
	t.Parallel()
	members := []Member{
		{Name: "web-1", Labels: map[string]string{"zone": "z1", "note": "a=b"}},
		{Name: "web-2", Labels: map[string]string{"zone": "z2"}},
		{Name: "db"},
		{Name: "a", Labels: map[string]string{"rack": "101"}}, {Name: "b", Labels: map[string]string{"rack": "202"}},
		{Name: "c", Labels: map[string]string{"rack": "303"}}, {Name: "d", Labels: map[string]string{"rack": "404"}},
		{Name: "e", Labels: map[string]string{"rack": "505"}}, {Name: "f", Labels: map[string]string{"rack": "606"}},
	}
	for _, c := range []struct{ text, selected, problem string }{
		{"web-1", "web-1", ""},
		{"zone=z2", "web-2", ""},
		{"note=a=b", "web-1", ""},
		{"outdated", "web-1 web-2 db a b c d e f", ""},
		{"failed", "web-1 web-2 db a b c d e f", ""},
		{"web_3", "", `no member has the name web_3; did you mean "web-1"?`},
		{"api", "", `no member has the name api`},
		{"zone=z3", "", `no member has the label zone=z3; did you mean "z1"?`},
		{"zone=europe", "", "no member has the label zone=europe; there are z1, z2"},
		{"note=", "", "no member has the label note=; there are a=b"},
		{"zome=z1", "", `no member has the label zome; did you mean "zone"?`},
		{"tier=data", "", "no member has the label tier; there are note, rack, zone"},
		{"rack=basement", "", "no member has the label rack=basement; there are 101, 202, 303, 404, 505 and others"},
		{"", "", `cannot select members by "": expected NAME, LABEL=VALUE, outdated or failed`},
		{"=z1", "", `cannot select members by "=z1": expected NAME, LABEL=VALUE, outdated or failed`},
		{"web 1", "", `cannot select members by "web 1": expected NAME, LABEL=VALUE, outdated or failed`},
		{"web-*", "", `cannot select members by "web-*": expected NAME, LABEL=VALUE, outdated or failed`},
	} {
		s, err := ParseSelector(c.text)
		if err == nil {
			if s.String() != c.text {
				t.Errorf("%q is written as %q", c.text, s)
			}
			err = s.Check(members)
		}
		if err != nil {
			if err.Error() != c.problem {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		var names []string
		for _, m := range members {
			if s.Matches(m) {
				names = append(names, m.Name)
			}
		}
		if got := strings.Join(names, " "); got != c.selected || c.problem != "" {
			t.Errorf("%q: got %q", c.text, got)
		}
	}
}
