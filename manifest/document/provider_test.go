package document

import (
	"strings"
	"testing"
)

const provided = `
-- m.yml --
name: lab
releases: [{name: web, url: file://web}, {name: shared, url: file://own}]
instance_groups:
- {name: a}
- {name: b, env: {bosh: {keep: 1, mbus: {cert: own}}}}
variables: [{name: p, type: password}]
-- cpi/p.yml --
cloud_provider: {mbus: ((p))}
releases: [{name: shared, url: file://other}, {name: cpi, url: file://cpi}, {name: far, url: https://h/far}]
variables: [{name: p, type: rsa}, {name: q, type: password}]
env: {bosh: {mbus: {cert: given, more: 2}}}
x-note: {}
-- own.yml --
- {type: replace, path: '/cloud_provider?', value: {mbus: own}}
-- wrong.yml --
cloud_providr: {}
env: 1
`

func readProvided(t *testing.T, opts Options) (string, error) {
	t.Helper()
	d, err := Read(t.Context(), "m.yml", opts, func(Value) {})
	if err != nil {
		return "", err
	}
	text, err := d.top().YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

// A manifest without a cloud_provider gets that of the file, with what belongs to it;
// what the manifest has wins.
func TestCloudProvider(t *testing.T) {
	inFolder(t, provided)
	got, err := readProvided(t, Options{CloudProvider: "cpi/p.yml", Vars: []string{"p=s3cret", "q=x"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `cloud_provider:
  mbus: s3cret
instance_groups:
- env:
    bosh:
      mbus:
        cert: given
        more: 2
  name: a
- env:
    bosh:
      keep: 1
      mbus:
        cert: own
        more: 2
  name: b
name: lab
releases:
- name: web
  url: file://web
- name: shared
  url: file://own
- name: cpi
  url: file://cpi/cpi
- name: far
  url: https://h/far
variables: []
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	got, err = readProvided(t, Options{CloudProvider: "cpi/p.yml", Ops: []string{"own.yml"}, Vars: []string{"p=x"}})
	if err != nil || strings.Contains(got, "given") || !strings.Contains(got, "mbus: own") {
		t.Errorf("with a cloud_provider of its own: %v\n%s", err, got)
	}
	_, err = readProvided(t, Options{CloudProvider: "wrong.yml", Vars: []string{"p=x"}})
	for _, want := range []string{
		`wrong.yml:1:1: has no cloud_provider`, `wrong.yml:1:1: cloud_providr: unknown key of the file of a cloud provider; did you mean "cloud_provider"?`,
		"wrong.yml:2:6: env: must be a map",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	if _, err = readProvided(t, Options{CloudProvider: "none.yml"}); err == nil || !strings.Contains(err.Error(), "cannot read the cloud provider none.yml") {
		t.Errorf("without a file: %v", err)
	}
	one, errOne := InputsDigest(t.Context(), "m.yml", Options{CloudProvider: "cpi/p.yml"}, "salt")
	other, errOther := InputsDigest(t.Context(), "m.yml", Options{}, "salt")
	if errOne != nil || errOther != nil || one == other {
		t.Errorf("the digest of the inputs does not contain the file: %v, %v", errOne, errOther)
	}
}
