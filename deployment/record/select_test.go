package record

import (
	"strings"
	"testing"
)

// People name groups and instances, by index or id.
func TestSelect(t *testing.T) {
	r := &Record{}
	for _, in := range []struct {
		group string
		index int
		id    string
	}{
		{"db", 0, "aaaa1111-0000-4000-8000-000000000000"},
		{"web", 0, "bbbb1111-0000-4000-8000-000000000000"},
		{"web", 1, "bbbb2222-0000-4000-8000-000000000000"},
		{"web", 2, "12345678-0000-4000-8000-000000000000"},
	} {
		r.Instances = append(r.Instances, &Instance{Group: in.group, Index: in.index, ID: in.id})
	}
	for _, c := range []struct{ names, want, unknown string }{
		{"", "db/0 web/0 web/1 web/2", ""},
		{"web", "web/0 web/1 web/2", ""},
		{"db", "db/0", ""},
		{"web/1", "web/1", ""},
		{"web/1,db", "db/0 web/1", ""},
		{"web,web/1", "web/0 web/1 web/2", ""},
		{"web/bbbb2222-0000-4000-8000-000000000000", "web/1", ""},
		{"web/bbbb2", "web/1", ""},
		{"web/bbbb", "", "web/bbbb"},
		{"web/12345678", "web/2", ""},
		{"web/1234", "", "web/1234"}, // an index
		{"web/bbb", "", "web/bbb"},
		{"db/bbbb2", "", "db/bbbb2"},
		{"web/3", "", "web/3"},
		{"web/", "", "web/"},
		{"web,", "", ""},
		{"gone,web", "", "gone"},
		{"web/first", "web/0", ""},
		{"db/first,web/2", "db/0 web/2", ""},
		{"gone/first", "", "gone/first"},
	} {
		list, unknown := r.Select(c.names)
		if got := strings.Join(Names(list), " "); got != c.want || unknown != c.unknown {
			t.Errorf("%q selects %q, unknown %q; want %q, %q", c.names, got, unknown, c.want, c.unknown)
		}
	}
	r.Instances[1].Going, r.Instances[3].Bootstrap = Chosen, true
	if in, _ := r.Find("web/first"); in.Name() != "web/2" {
		t.Errorf("the first instance is %s, and not the one that bootstraps its group", in.Name())
	}
	if _, found := r.Find("web"); found {
		t.Error("web is found as one instance")
	}
	if in, found := r.Find("db"); !found || in.Name() != "db/0" {
		t.Error("db is not found")
	}
}
