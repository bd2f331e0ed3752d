package document

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A stored value that does not match its options is generated again with update_mode:
// converge, and so are the certificates that its CA signed; nothing else is.
func TestConverge(t *testing.T) {
	t.Parallel()
	const manifest = `features: {converge_variables: FEATURE}
variables:
- {name: ca, type: certificate, options: {is_ca: true, common_name: CA}}
- {name: tls, type: certificate, update_mode: converge, options: {ca: ca, common_name: x, alternative_names: [NAME]}}
- {name: kept, type: certificate, update_mode: no-overwrite, options: {ca: ca, common_name: y, alternative_names: [NAME]}}
- {name: password, type: password, update_mode: overwrite}
`
	dir := t.TempDir()
	path, store := filepath.Join(dir, "m.yml"), filepath.Join(dir, "creds.yml")
	opts := Options{VarsStore: store}
	read := func(mode Mode, feature, ca, name string) *Document {
		t.Helper()
		text := strings.NewReplacer("FEATURE", feature, "CA", ca, "NAME", name).Replace(manifest)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		opts.Generate = mode
		d, err := Read(t.Context(), path, opts, func(Value) {})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := read(Write, "false", "one", "a.example.com"); len(d.Generated) != 4 {
		t.Fatal(d.Generated)
	}
	for _, c := range []struct {
		mode              Mode
		feature, ca, name string
		want              []string
	}{
		{Write, "true", "one", "a.example.com", nil},
		{Refuse, "false", "one", "b.example.com", nil},
		{Plan, "false", "one", "b.example.com", []string{"tls"}},
		{Write, "false", "one", "b.example.com", []string{"tls"}},
		{Write, "false", "one", "b.example.com", nil},
		{Write, "false", "two", "b.example.com", nil},
		{Write, "true", "two", "b.example.com", []string{"ca", "tls"}},
		{Write, "true", "two", "b.example.com", nil},
	} {
		d := read(c.mode, c.feature, c.ca, c.name)
		got := slices.Sorted(slices.Values(d.Generated))
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: generated %v", c, got)
		}
		if !slices.ContainsFunc(d.Warnings, func(p Problem) bool {
			return strings.Contains(p.Message, "bootstrap variables rotate generates a new one at any time")
		}) {
			t.Errorf("%v", d.Warnings)
		}
	}
}

// A certificate that must be generated again, but whose links have not been asked for, is
// refused. A deploy would give VMs the words of a plan.
func TestConvergeWithoutNames(t *testing.T) {
	t.Parallel()
	opts := Options{VarsStore: filepath.Join(t.TempDir(), "creds.yml"), Generate: Write}
	opts.LinkNames = func(_ context.Context, wishes []LinkWish) ([]LinkNames, error) {
		return make([]LinkNames, len(wishes)), nil
	}
	read := func(name string) (*Document, error) {
		path := write(t, "variables: [{name: tls, type: certificate, update_mode: converge, options: {is_ca: true, common_name: "+name+"}, consumes: {alternative_name: {from: web}}}]\n")
		return Read(t.Context(), path, opts, func(Value) {})
	}
	if _, err := read("one"); err != nil {
		t.Fatal(err)
	}
	if _, err := read("two"); err == nil || !strings.Contains(err.Error(), `the value of "tls" needs the addresses of the link web`) {
		t.Errorf("%v", err)
	}
	opts.CheckLinks = true
	if d, err := read("two"); err != nil || !slices.Equal(d.Generated, []string{"tls"}) {
		t.Errorf("%v", err)
	}
}
