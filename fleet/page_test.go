package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bootstrap/manifest/document"
	"bootstrap/manifest/manifesttest"
)

// The page of fleets names every key, and Read and the schema accept its files.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, s := range sections {
		for _, f := range s.Read {
			if !regexp.MustCompile("[`{, ]" + f.Key + "[`}:,]").MatchString(page) {
				t.Errorf("the page does not name %s of %q", f.Key, s.Name)
			}
		}
	}
	schema := compiled(t)
	names := ""
	const files = `
-- envs/a/manifest.yml --
-- envs/b/manifest.yml --
-- web/manifest.yml --
-- jumpboxes/east/manifest.yml --
-- jumpboxes/west/manifest.yml --
-- pg.yml --
-- cloud.yml --
`
	opts := document.Options{Vars: []string{"domain=example.com"}}
	var last string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(# fleet.yml\n.*?)```").FindAllStringSubmatch(page, -1) {
		last = block[1]
		f, _ := read(t, "-- fleet.yml --\n"+last+files, opts)
		if err := schema.Validate(manifesttest.Instance(t, last)); err != nil {
			t.Error(err)
		}
		for _, m := range f.Members {
			names += m.Name + " "
		}
		if err := (Selector{Name: "pg1"}).Check(f.Members); err == nil || len(f.Members) > 2 && !strings.Contains(page, err.Error()) {
			t.Errorf("the page does not have: %v", err)
		}
	}
	dir := unpacked(t, "-- fleet.yml --\n"+strings.Replace(last, "pg-2", "pg-1", 1)+"  order: nmae\n"+files)
	_, err = Read(t.Context(), filepath.Join(dir, "fleet.yml"), opts, Outside{})
	if err == nil || !strings.Contains(page, "```\n"+strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")+"\n```") {
		t.Errorf("the page does not have: %v", err)
	}
	if names != "a b web east west pg-1 pg-2 pg-3 " {
		t.Errorf("members: %s", names)
	}
	rows := regexp.MustCompile("(?m)^\\| `(canaries|max_in_flight): ([0-9%]+)` \\| (.*) \\|$").FindAllStringSubmatch(page, -1)
	if len(rows) != 3 {
		t.Errorf("the page has %d rows of numbers", len(rows))
	}
	for _, row := range rows {
		share, ok := ParseShare(row[2])
		if !ok {
			t.Fatal(row[0])
		}
		var got []string
		for _, total := range []int{4, 25, 199} {
			n := share.Of(total)
			if row[1] == "max_in_flight" {
				n = max(n, 1)
			}
			got = append(got, fmt.Sprint(n))
		}
		if strings.Join(got, " | ") != row[3] {
			t.Errorf("%s: %v", row[0], got)
		}
	}
}
