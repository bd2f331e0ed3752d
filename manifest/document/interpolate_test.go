package document

import (
	"slices"
	"strings"
	"testing"
)

// The results are those of create-env, except for the differences that are marked here
// and listed in docs/compatibility.md.
func TestInterpolation(t *testing.T) {
	t.Parallel()
	const vars = `
s: words
n: 5
big: 18446744073709551615
b: yes
f: 1.5
z: ~
m: {k: {l: [x, {q: deep}]}, "0": zero, "5": five, list: [p, q]}
l: [one, two]
/abs/name: absolute
naïve-x_1: letters
yes: named yes
looks: ((s))
other: ((m))
dotted.a.b.c: 1
dotted.a.b.d: 2
`
	for _, c := range []struct{ document, want string }{
		{"((s))", "words"},
		{"(( s ))", "words"},
		{"((!s))", "words"},
		{"((  s))", "((  s))"},
		{"((s ))", "words"},
		{"[((n)), ((b)), ((f)), ((z))]", "[5, true, 1.5, ~]"},
		{"((m))", `{k: {l: [x, {q: deep}]}, "0": zero, "5": five, list: [p, q]}`},
		{"a-((s))-((n))", "a-words-5"},
		{"((big))!", "18446744073709551615!"},
		{"a (( s )) b", "a words b"},               // difference: create-env leaves it unchanged
		{"((!s))((s))(( !s ))", "wordswordswords"}, // difference: create-env leaves (( !s )) unchanged
		{"((looks)) and ((s))", "((s)) and words"}, // difference: create-env fills in the value, too
		{"((missing)) ((s))", "((missing)) words"}, // only missing variables stay
		{"a (( missing ))", "a (( missing ))"},     //
		{"((looks))", `"((s))"`},                   // variables in values are not filled in
		{"((m.k.l.0))", "x"},                       //
		{"((m.k.l.-1.q))", "deep"},                 //
		{"((m.list.1))", "q"},                      //
		{"((m.0))", "zero"},                        // a number may be a key
		{"((m.5))", "five"},                        //
		{"((l.1))", "two"},                         //
		{"x ((m.k.l.1.q))", "x deep"},              //
		{"((/abs/name))", "absolute"},              //
		{"((naïve-x_1))", "letters"},               //
		{"((yes))", "named yes"},                   //
		{"((dotted.a.b))", "{c: 1, d: 2}"},         // difference: create-env loses one
		{"{((s)): 1, k: 2}", "{words: 1, k: 2}"},   //
		{"{((n)): 1}", "{5: 1}"},                   // the key gets the type of the value
		{"{((b)): 1}", "{true: 1}"},                //
		{"{x((s))y: ((n))}", "{xwordsy: 5}"},       //
		{"{((missing)): ((s))}", `{"((missing))": words}`},
		{"$((1 + 2)) ((a b)) (()) ((s", "$((1 + 2)) ((a b)) (()) ((s"},
		{"# ((s))\na: 1", "a: 1"},
		{"", "~"},
		{"((b)) x", "! is the boolean true, but within other text only text and whole numbers"},
		{"((f)) x", "! is a number, but within other text"},
		{"((m)) x", "! is a map, but within other text"},
		{"((z)) x", "! is null, but within other text"},
		{"((m.k.nothing))", `! ((m.k.nothing)): in the value of "m", /k has no key "nothing"; it has "l"`},
		{"((m.lost))", `! the value of "m" has no key "lost"; it has "k", "0", "5", "list"; did you mean "list"?`},
		{"((s.x))", `! the value of "s" is text, where a map is needed`},
		{"((l.2))", "! has no item 2; it has 2 items"},
		{"((l.-))", "! so it has no value yet"},
		{"{((m)): 1}", "! but keys must be text"},
		{"{((s)): 1, words: 2}", "! this key equals another key of the map"},
	} {
		got, err := evaluated(t, c.document, "vars", vars)
		if message, ok := strings.CutPrefix(c.want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("%s: got %q, error %v; want an error with %q", c.document, got, err, message)
			}
			continue
		}
		want, errWant := evaluated(t, c.want)
		if err != nil || errWant != nil || got != want {
			t.Errorf("%s: got %q, error %v; want %q", c.document, got, err, want)
		}
	}
}

// Each source is read as create-env reads it.
func TestValueSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		inputs []string
		want   string
	}{
		{"whole number", []string{"var", "x=5"}, "5"},
		{"boolean", []string{"var", "x=true"}, "true"},
		{"map", []string{"var", "x={a: [1]}"}, "{a: [1]}"},
		{"null", []string{"var", "x=~"}, "~"},
		{"text is taken raw", []string{"var", "x=a #b\n c"}, `"a #b\n c"`},
		{"one pair of quotes goes", []string{"var", `x="5"`}, `"5"`},
		{"only one", []string{"var", `x='"5"'`}, `'"5"'`},
		{"quotes that do not match", []string{"var", `x=it's`}, `it's`},
		{"empty text", []string{"var", `x=""`}, `""`},
		{"an equals sign", []string{"var", "x=a=b"}, "a=b"},
		{"a comment", []string{"var", "x=#abc"}, "~"},
		{"a comment in quotes", []string{"var", `x="#abc"`}, `"#abc"`},
		{"a tag alone", []string{"var", "x=!"}, `"!"`},
		{"a tag alone before a number", []string{"var", "x=! 5"}, `"! 5"`},
		{"environment, a tag alone", []string{"env", "PRE_x=! 5"}, `"5"`},
		{"file", []string{"file", "x"}, `"line one\nline two\n"`},
		{"environment", []string{"env", "PRE_x=01"}, "1"},
		{"environment, quoted", []string{"env", `PRE_x="01"`}, `"01"`},
		{"environment, empty", []string{"env", "PRE_x="}, "~"},
		{"environment, last", []string{"env", "PRE_x=1", "env", "PRE_x=2", "env", "PREx=3", "env", "OTHER_x=4"}, "2"},
		{"file over environment", []string{"env", "PRE_x=1", "vars", "x: 2"}, "2"},
		{"later file over earlier", []string{"vars", "x: 1"}, "1"},
		{"single file over file", []string{"vars", "x: 2", "file", "x"}, `"line one\nline two\n"`},
		{"value over all", []string{"env", "PRE_x=1", "vars", "x: 2", "file", "x", "var", "x=4", "var", "x=5"}, "5"},
		{"whole value replaces map", []string{"vars", "x: {a: 1}", "var", "x={b: 2}"}, "{b: 2}"},
		{"part of a map", []string{"vars", "x: {a: 1, b: 1}", "var", "x.b=2"}, "{a: 1, b: 2}"},
		{"parts make a map", []string{"var", "x.a.b=1", "var", "x.a.c=2"}, "{a: {b: 1, c: 2}}"},
		{"part before whole in one file", []string{"vars", "x.b: 2\nx: {a: 1}"}, "{a: 1, b: 2}"},
		{"given over stored", []string{"store", "x: 1", "var", "x=2"}, "2"},
		{"stored", []string{"store", "x: {a: 1}"}, "{a: 1}"},
		{"empty files", []string{"store", "", "vars", "", "ops", "", "var", "x=1"}, "1"},
		{"part of text", []string{"vars", "x: 1", "var", "x.b=2"}, `! the value of "x" is a number, not a map`},
		{"no equals sign", []string{"var", "sesame"}, "! cannot use --var number 1: expected NAME=VALUE"},
		{"no name", []string{"var", "=sesame"}, "! cannot use --var number 1"},
		{"no value", []string{"var", "x="}, "! the value is empty"},
		{"value that is no YAML", []string{"var", "x=@sesame"}, "! cannot read the value of --var x as YAML: a value begins with a special character of YAML"},
		{"list of variables", []string{"vars", "- x"}, "! vars.yml:1:1: the variables file must be a map"},
		{"store that is text", []string{"store", "x"}, "! store.yml:1:1: the vars store must be a map"},
		{"store that is no YAML", []string{"store", "x: [sesame"}, "! store.yml:1:1: the file is not valid YAML"},
		{"environment that is no YAML", []string{"env", "PRE_x=[sesame"}, "! cannot read the environment variable PRE_x as YAML"},
	} {
		got, err := evaluated(t, "((x))", c.inputs...)
		if message, ok := strings.CutPrefix(c.want, "! "); ok {
			if err == nil || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: got %q, error %v; want an error with %q", c.name, got, err, message)
			}
			continue
		}
		want, errWant := evaluated(t, c.want)
		if err != nil || errWant != nil || got != want {
			t.Errorf("%s: got %q, error %v; want %q", c.name, got, err, want)
		}
	}
}

func TestMissingAndUnused(t *testing.T) {
	t.Parallel()
	d, err := evaluateText(t, `
a: ((gone)) ((gone)) ((here))
b: ((gone.too))
c: ((generated))
variables:
- {name: generated, type: password}
- {name: defined}
- {name: blocked, type: certificate, options: {common_name: "((nested_name))"}}
`, "vars", "here: 1\nspare: 2\ngoner: 3\n")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Unused, []string{"goner", "spare"}) {
		t.Errorf("unused: %q", d.Unused)
	}
	got := Problems(d.Missing).Error()
	want := `<stdin>:2:4: a: the variable ((gone)) has no value (it is used in 3 places); did you mean ((goner))?
<stdin>:4:4: c: the variable ((generated)) has no value; its type is password: with --vars-store FILE it is generated and kept in that file
<stdin>:7:3: variables[1]: the variable ((defined)) has no value; set it with --var NAME=VALUE, or in a file with --vars-file FILE
<stdin>:8:3: variables[2]: the variable ((blocked)) has no value; its type is certificate: with --vars-store FILE it is generated and kept in that file
<stdin>:8:61: variables[2].options.common_name: the variable ((nested_name)) has no value`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
