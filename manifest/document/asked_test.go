package document

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/manifest/gen"
)

// sourced returns options with a source in memory, and a list of the requests to it.
func sourced(values map[string]any) (opts Options, asked *[][]string) {
	asked = new([][]string)
	opts.Ask = func(_ context.Context, names []string) (Answers, error) {
		*asked = append(*asked, names)
		a := Answers{Asked: []string{"memory=a", "memory=b"}, Values: map[string]Answer{}}
		for _, name := range names {
			if value, ok := values[name]; ok {
				a.Values[name] = Answer{Source: "memory=a", Value: value}
			}
		}
		return a, nil
	}
	return opts, asked
}

func TestSourcesAreAskedForWhatNothingElseGives(t *testing.T) {
	t.Parallel()
	path, stored := inStore(t, "variables: [{name: stored, type: password}]\n")
	text := `
a: ((db.password))-((db.port))
((key)): [((given)), ((stored)), ((db)), ((!old)), ((/whole/path.x)), ((lacking.y))]
variables:
- {name: stored, type: password}
- {name: typed, type: password}
- {name: made, type: password}
- {name: leaf, type: certificate, options: {ca: authority, common_name: ((host)), key_type: ecdsa}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var keys gen.Keys
	defer keys.Close()
	authority, err := keys.Generate(gen.Definition{Name: "authority", Type: "certificate", Options: map[string]any{"is_ca": true, "common_name": "ca", "key_type": "ecdsa"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts, asked := sourced(map[string]any{
		"db": map[string]any{"password": "s3cret-db", "port": 5432, "username": "administrator"}, "key": "k", "old": []any{"x", nil, 2.5},
		"/whole/path": map[string]any{"x": true}, "typed": "from-the-source", "host": "example.test", "authority": authority,
	})
	opts.Vars, opts.VarsStore, opts.Generate = []string{"given=1"}, stored.VarsStore, Write
	d, err := Evaluate(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	if want := "db key old /whole/path lacking host typed made leaf authority"; len(*asked) != 1 || strings.Join((*asked)[0], " ") != want {
		t.Errorf("asked: %v, want once %s", *asked, want)
	}
	if want := []string{"made", "leaf"}; !slices.Equal(d.Generated, want) {
		t.Errorf("generated: %v, want %v", d.Generated, want)
	}
	value, err := d.Find("")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := value.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a: s3cret-db-5432\n", "k:\n- 1\n- ", "- password: s3cret-db\n", "- - x\n  - null\n  - 2.5\n- true\n- ((lacking.y))\n"} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("%s\nlacks %q", shown, want)
		}
	}
	secrets := d.Secrets()
	if !secrets["s3cret-db"] || !secrets["from-the-source"] || secrets["administrator"] {
		t.Errorf("secrets: %v", secrets)
	}
	if len(d.Missing) != 1 || !strings.Contains(d.Missing[0].Message, "the variable ((lacking)) has no value, also not in memory=a, memory=b; set it with --var") {
		t.Errorf("missing: %v", d.Missing)
	}
	if now := storeOf(t, opts); now["typed"] != "" || now["leaf"] == "" {
		t.Errorf("the store has %v", now)
	}
	list, err := Variables(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	origins := ""
	for _, v := range list {
		origins += v.Name + ": " + string(v.Origin) + ", "
	}
	if want := "stored: stored, typed: from a source, made: stored, leaf: stored, "; origins != want {
		t.Errorf("%s, want %s", origins, want)
	}
	if _, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{"typed"}}); err == nil || err.Error() != `cannot rotate "typed": its value comes from --var-source memory=a, and is not in the vars store; change it there` {
		t.Error(err)
	}
	// A certificate that a CA of the source signed is rotated like any other.
	if rotated, err := Rotate(t.Context(), path, opts, Rotation{Names: []string{"leaf"}}); err != nil || len(rotated) != 1 {
		t.Errorf("%v, %v", rotated, err)
	}
}

func TestSourcesAreNotAskedWithoutNeed(t *testing.T) {
	t.Parallel()
	opts, asked := sourced(nil)
	opts.Vars, opts.Stdin = []string{"a=1"}, strings.NewReader("x: ((a)) ((( )) ((a.b c))")
	if _, err := Evaluate(t.Context(), "-", opts); err != nil || len(*asked) > 0 {
		t.Errorf("asked: %v, %v", *asked, err)
	}
}

func TestSourceFails(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store.yml")
	failed := errors.New("no answer")
	_, err := Evaluate(t.Context(), "-", Options{
		Stdin: strings.NewReader("variables: [{name: p, type: password}]"), VarsStore: store, Generate: Write,
		Ask: func(context.Context, []string) (Answers, error) { return Answers{}, failed },
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("the store: %v", err)
	}
}

func TestInputsDigestOfSources(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m.yml")
	if err := os.WriteFile(path, []byte("a: ((a))\nb: ((b.k))\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := func(values map[string]any) string {
		opts, _ := sourced(values)
		s, err := InputsDigest(t.Context(), path, opts, "salt")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	same, again := sum(map[string]any{"a": "1", "b": map[string]any{"k": 1, "l": 2}}), sum(map[string]any{"a": "1", "b": map[string]any{"l": 2, "k": 1}, "c": "unused"})
	if same != again {
		t.Error("equal values have different digests")
	}
	for _, other := range []map[string]any{{"a": 1, "b": map[string]any{"k": 1, "l": 2}}, {"a": "1"}, {"a": math.NaN()}, nil} {
		if sum(other) == same {
			t.Errorf("%v has the same digest", other)
		}
	}
}
