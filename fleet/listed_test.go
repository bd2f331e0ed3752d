package fleet

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
)

// listing returns an Outside in which every list has this text.
func listing(text string) Outside {
	return Outside{List: func(context.Context, source.List, []string) ([]byte, error) { return []byte(text), nil }}
}

const listedFleet = `
-- fleet.yml --
members:
- {name: own, manifest: pg.yml, state: own.json}
- manifest: pg.yml
  from: {exec: [./list, all], vars: [index, plan_id]}
  vars: {index: 0, domain: example.com}
  labels: {tier: data}
  vars_store: creds-{name}.yml
-- pg.yml --
`

// A list gives names and the variables that the fleet file allows; a service broker's list
// is one of these.
func TestListedMembers(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`[{"name": "pg-2", "vars": {"index": 2}}, {"name": "pg-1"}]`: `["pg-2","pg.yml","pg-2-state.json","creds-pg-2.yml","{\"domain\":\"example.com\",\"index\":2}"]
["pg-1","pg.yml","pg-1-state.json","creds-pg-1.yml","{\"domain\":\"example.com\",\"index\":0}"]`,
		`[{"service_instance_id": "7fc5-a", "plan_id": "small", "other": {}}]`: `["7fc5-a","pg.yml","7fc5-a-state.json","creds-7fc5-a.yml","{\"domain\":\"example.com\",\"index\":0,\"plan_id\":\"small\"}"]`,
		`[]`: ``,
	} {
		dir := unpacked(t, listedFleet)
		f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, listing(list))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range f.Members[1:] {
			got = append(got, shown(t, dir, []string{m.Name, m.Manifest, m.State, m.VarsStore, string(m.Vars)}))
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s: got\n%s\nwant\n%s", list, text, want)
		}
		if (len(f.EmptyLists) == 1) != (list == "[]") {
			t.Errorf("%s: empty are %q", list, f.EmptyLists)
		}
	}
}

// A list cannot name files, programs and other variables, nor use the values of variables.
func TestWrongLists(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"":  "it is empty: a list without members is []",
		"x": "must be a list",
		"[\n{\"name\": \"a\"},\n{\"name\": \"A\"}]":            "the output of ./list:3:10: [1].name: must be unique, but the list has it twice",
		`[{"name": "../a"}]`:                                   "must begin with a letter or a digit",
		`[{"name": "own"}]`:                                    `the list has the name "own", which must be unique, but the member at`,
		`[{"vars": {}}]`:                                       "[0].name: must be provided",
		`["a"]`:                                                `must be a map such as {"name": "pg-1"`,
		`[{"name": "a", "manifest": "/etc/passwd"}]`:           "[0].manifest: unknown key: a list gives only name and vars",
		`[{"name": "a", "vars": ["index"]}]`:                   "[0].vars: must be a map of variables, not",
		`[{"name": "a", "vars": {"mbus_password": "x"}}]`:      "[0].vars.mbus_password: is not in from.vars of the fleet file",
		`[{"name": "a", "vars": {"index": ["((password))"]}}]`: "[0].vars.index: must not contain ((",
		`[{"service_instance_id": "a", "plan_id": "((pw))"}]`:  "[0].plan_id: must not contain ((",
		`[{"name": "a"`:                                        "the output of ./list:1:",
	} {
		_, err := Read(t.Context(), filepath.Join(unpacked(t, listedFleet), "fleet.yml"), document.Options{}, listing(list))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "fleet.yml:4:9: members[1].from") {
			t.Errorf("%s: got %v, want %s", list, err, want)
		}
	}
	broken := Outside{List: func(context.Context, source.List, []string) ([]byte, error) {
		return nil, errors.New("the server answers 503")
	}}
	if _, err := Read(t.Context(), filepath.Join(unpacked(t, listedFleet), "fleet.yml"), document.Options{}, broken); err == nil || !strings.Contains(err.Error(), "cannot read the list of members: the output of ./list: the server answers 503") {
		t.Errorf("%v", err)
	}
}

// A list is asked for with everything that the fleet file says about it, after variables
// are filled in.
func TestSourceOfMembers(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, `
-- fleet.yml --
members:
- manifest: pg.yml
  from: {url: "https://broker/list", ca: ca.pem, headers: {Authorization: Bearer ((token))}}
-- pg.yml --
-- ca.pem --
`)
	var asked source.List
	outside := Outside{List: func(_ context.Context, l source.List, _ []string) ([]byte, error) {
		asked = l
		return []byte(`[{"name": "a"}]`), nil
	}}
	if _, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, outside); err == nil || asked.URL != "" {
		t.Errorf("without the token: %v, %q", err, asked.URL)
	}
	f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{Vars: []string{"token=s3cret"}}, outside)
	if err != nil || len(f.Members) != 1 || asked.URL != "https://broker/list" || asked.CA != filepath.Join(dir, "ca.pem") || asked.Headers["Authorization"] != "Bearer s3cret" {
		t.Errorf("%v, %+v", err, asked)
	}
	for from, want := range map[string]string{
		`{}`:                                   "must contain exec",
		`{exec: [a], url: "https://b/c"}`:      "cannot be used with exec",
		`{url: "http://b/c"}`:                  "must begin with https://",
		`{url: "https://u:p@b/c"}`:             "must not contain credentials",
		`{exec: [], vars: [a]}`:                "must be a list",
		`{exec: [a], vars: [a.b]}`:             "without dots",
		`{exec: [a], headers: {A: b}}`:         "members[0].from.headers: can be used only with url",
		`{url: "https://b/c", ca: absent.pem}`: "does not exist",
		`{exce: [a]}`:                          "did you mean \"exec\"",
	} {
		_, err := Read(t.Context(), filepath.Join(unpacked(t, "-- fleet.yml --\nmembers: [{manifest: pg.yml, from: "+from+"}]\n-- pg.yml --\n"), "fleet.yml"), document.Options{}, outside)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", from, err, want)
		}
	}
}
