package report

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// docs/fleet.md names every key of the JSON report.
func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Reports\n")
	_, section, json := strings.Cut(section, "\n### JSON\n")
	if !found || !json {
		t.Fatal("the page has no section on the JSON report")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	seen := map[reflect.Type]bool{}
	var check func(of reflect.Type)
	check = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] || of.PkgPath() == "time" {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key == "-" || key == "" {
				continue
			}
			want := "`" + key + "`"
			if options != "" {
				want += "*"
			}
			if !strings.Contains(section, want) {
				t.Errorf("the page does not name %s of %s", want, of.Name())
			}
			check(f.Type)
		}
	}
	check(reflect.TypeFor[Report]())
}
