package document

import (
	"fmt"
	"strings"
	"testing"

	yaml2 "go.yaml.in/yaml/v2"
)

// scalars returns texts whose meaning differs between versions of YAML, and similar ones.
func scalars() []string {
	return strings.Split(`yes|Yes|YES|yEs|no|on|On|off|OFF|y|Y|n|N|true|True|tRUE|false|~|null|Null|NULL|nULL|`+
		`0|1|-1|+1|12|0755|-0755|08|09|0o17|-0o17|0x1F|-0x1f|0X1f|0b1|0b101|-0b11|+0b1|0b|0b-1|-0b-1|0b2|0B1|1_000|_1|1_|1__0|0x_1|0_7|`+
		`9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|18446744073709551615|18446744073709551616|`+
		`1.0|1.5|-1.5|+.5|.5|-.5|5.|1e3|1e+3|1E3|1e400|.1e1|1_0.5|._5|1.2.3|.inf|-.inf|+.inf|.Inf|.INF|.iNF|.nan|.NaN|.NAN|nan|inf|Infinity|`+
		`0x1p-2|.0x1|1e|1e+|0e0|-0|+0|-0.0|00|00.5|1:30|190:20:30|12:30:45|2001-01-01|2001-1-1|2001-12-14t21:59:43.10-05:00|`+
		`2001-12-14 21:59:43|2001-12-14T21:59:43Z|2001-13-01|20010101|<<|=|-|+|.|..|...x|--- a|a b|a#b|10.0.0.1|10.0.0.0/24|1234567890123456789012345678901234567890|`+
		`1e10000000000000000000000000000000000000|5e1234567890|12e03|0x|0xg|1,000|$1|%TAG|!x|'yes'|"no"|'0755'|"1.0"|"null"|''|""|"a\tb"|"\u00e9"|"\xff"|`+
		`!!str yes|!!str 1|!!str|!!int 1|!!int "1"|!!int 0755|!!int 1.5|!!int yes|!!float 1|!!float "1.5"|!!float 18446744073709551615|!!float x|`+
		`!!bool yes|!!bool "off"|!!bool 1|!!null ~|!!null x|!!null ""|!!timestamp 2001-01-01|!!timestamp "2001-01-01"|!!timestamp x|`+
		`!!binary aGVsbG8=|!!binary gIGC|!!binary "aGk="|!!binary a|!foo bar|! 5|! yes|! ~|! '5'|&x ! 5|! &x 1.5|!!set x|!<tag:yaml.org,2002:str> 5|!!merge x`, "|")
}

// hardDocuments returns documents with rare syntax.
func hardDocuments() []string {
	return []string{
		"", "\n", "---\n", "--- ~\n", "...\n", "# only a comment\n", "a: 1\n---\nb: 2\n", "a: 1\n...\nnot: [yaml\n",
		"a: &x {k: v, l: [1, 2]}\nb: *x\nc: [*x, *x]\n",
		"base: &b {a: 1, b: 2}\nm: {<<: *b, b: 3}\nn: {b: 3, <<: *b}\n",
		"a: &a {x: 1}\nb: &b {x: 2, y: 2}\nm: {<<: [*a, *b], z: 3}\nn: {<<: [{x: 9}, *b]}\n",
		"a: &a {x: 1, <<: {x: 2, w: 3}}\nm: {<<: *a}\nm2: {<<: *a, <<: {x: 7}}\n",
		"m: {<<: 3}\n", "m: {<<: [1]}\n", "l: &l [1]\nm: {<<: *l}\n", "m: {<<: ~}\n", "m: {\"<<\": {a: 1}}\n", "m: {!!merge <<: {a: 1}}\n",
		"a: <<\nb: [<<]\n", "a: 1\na: 2\n", "a: {b: 1}\na: {c: 2}\n", "1: a\n1: b\n0x1: c\n\"1\": d\n", "yes: a\ntrue: b\n~: c\nnull: d\n",
		"? [a]\n: b\n", "? {a: b}\n: c\n", "&k key: v\n*k : w\n", "a: &a [*a]\n", "a: &a {b: *a}\n", "a: &a {<<: *a}\n", "a: *nowhere\n",
		"a: &x 1\nb: &x 2\nc: *x\n", ".nan: 1\n.NaN: 2\n", "1.5: a\n.inf: b\n2001-01-01: c\n",
		"a: |\n  line\n  line\n\nb: >-\n  folded\n  text\nc: |2+\n   x\n\n", "a: 'it''s'\nb: \"a\\\n  b\"\nc: multi\n  line\n  plain\n",
		"a: !!binary |\n  aGVs\n  bG8=\n", "a: [1, 2, ]\nb: {}\nc: []\nd:\n- \n-\n- ~\n", "- a\n- b: c\n  d: e\n-\n  - f\n",
		"a: \"x: y\"\nb: x:y\nc: http://x/y#z\nd: a #comment\n", "%YAML 1.1\n---\na: b\n", "%TAG !e! tag:e.com,2000:\n---\na: !e!x b\n",
		"\xef\xbb\xbfa: b\n", "a: \xff\n", "a: b\x00\n", "a:\tb\n", "a:\n\tb: c\n", "a: b\r\nc: d\r\n", "a: {b: c\n", "a: [b\n", "a: \"b\n", "a: 'b\n",
		"a: b: c\n", "a\nb\n", "a: b\n c: d\n", "- a\nb: c\n", "a: @b\n", "a: `b`\n", "a: %b\n", "a: *\n", "a: &\n", "a: !\n", "a: !\nb: ! \n\nc: &x !\n- !\n", "- !\n- &x\n  ! 5\n- &y # !\n  5\n", "a: &x\n! 5: c\n", "a: |x\n",
		"a: ((b))\nc: \"((d.e)) ((f))\"\n((g)): h\nvariables: [{name: i, type: password}]\n", "variables: []\n", "variables: x\n",
		strings.Repeat("[", 600) + strings.Repeat("]", 600), bomb(9, 9), "a: &a " + strings.Repeat("x", 5000) + "\nb: [" + strings.Repeat("*a,", 5000) + "]\n",
		strings.Repeat("{a: ", 100) + "b" + strings.Repeat("}", 100), "a:\n" + strings.Repeat(" ", 1200) + "b: c\n", strings.Repeat("k", 1200) + ": v\n",
	}
}

// bomb returns a document whose aliases multiply by width at each level.
func bomb(levels, width int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i <= levels; i++ {
		ref := fmt.Sprintf("*a%d,", i-1)
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(ref, width))
	}
	return b.String()
}

func TestScalarsMeanWhatTheyMeanToYAML2(t *testing.T) {
	t.Parallel()
	for _, s := range scalars() {
		for _, form := range []string{"%s", "a: %s\n", "%s: a\n", "[%s]\n", "- %s\n- b\n", "a: {b: %s}\n"} {
			doc := fmt.Sprintf(form, s)
			t.Run(doc, func(t *testing.T) {
				var want any
				err := yaml2.Unmarshal([]byte(doc), &want)
				d := parse("m.yml", []byte(doc))
				if failed := d.problems.failed(); failed != (err != nil) {
					t.Fatalf("problems %v, but yaml.v2 says %v", d.problems, err)
				}
				if got := d.root.generic(); err == nil && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
					t.Errorf("got %#v, yaml.v2 says %#v", got, want)
				}
			})
		}
	}
}

func TestDocumentsMeanWhatTheyMeanToYAML2(t *testing.T) {
	t.Parallel()
	for _, doc := range hardDocuments() {
		name := doc[:min(len(doc), 30)]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareWithYAML2(t, []byte(doc))
		})
	}
}

// create-env writes the evaluated document as YAML and reads it again into Go types.
// Texts and properties must be the same as after that.
func TestValuesAreThoseOfASecondReading(t *testing.T) {
	t.Parallel()
	for _, s := range scalars() {
		doc := []byte("{a: " + s + "}")
		var tree any
		if yaml2.Unmarshal(doc, &tree) != nil {
			continue
		}
		again, err := yaml2.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		var asText struct{ A string }
		var asAny struct{ A any }
		if err := yaml2.Unmarshal(again, &asText); err != nil {
			t.Fatal(s, err)
		}
		if err := yaml2.Unmarshal(again, &asAny); err != nil {
			t.Fatal(s, err)
		}
		d := parse("m.yml", doc)
		value := d.root.entries[0].value.value
		if got := scalarText(value); got != asText.A {
			t.Errorf("%s as text: got %q, create-env takes %q", s, got, asText.A)
		}
		if got := settledScalar(value); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", asAny.A) {
			t.Errorf("%s as property: got %#v, create-env takes %#v", s, got, asAny.A)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"size":     {"name: min\n" + strings.Repeat("# filler\n", MaxFileSize/9), "is larger than the limit of 2 MiB"},
		"bomb":     {"name: min\n" + "x:\n  " + strings.ReplaceAll(bomb(9, 9), "\n", "\n  "), "aliases (*name) of this file repeat too much of it"},
		"text":     {"name: min\n" + "x: [&a " + strings.Repeat("x", 1<<20) + strings.Repeat(", *a", 20) + "]\n", "or 16 MiB of text"},
		"merges":   {"name: min\n" + "x:\n  " + strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(bomb(9, 9), "[", "{<<: ["), "]", "]}"), "[x]}", "{x: y}}"), "too much of it"},
		"depth":    {"name: min\n" + "x: " + strings.Repeat("[", 600) + strings.Repeat("]", 600), "nested more than 500 levels"},
		"cycle":    {"name: min\n" + "x: &x [*x]\n", "contains the alias itself"},
		"mergeown": {"name: min\n" + "x: &x {<<: *x}\n", "contains the alias itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Evaluate(t.Context(), write(t, tt.text), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 2000 {
				t.Errorf("got %.300v, want %s", err, tt.want)
			}
		})
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, place, want string }{
		{"a: 1\n  b: 2\n", "2:3", "check the indentation"},
		{"x: 0\na:\n  - x\n b: 1\n", "4:2", "does not match the indentation"},
		{"a:\n\tb: 1\n", "2:1", "use spaces"},
		{"a:\n  \tb: 1\n", "2:3", "use spaces"},
		{"x: 1\na: 'foo\nb: 1\n", "2:1", "the closing quote is missing"},
		{"x: 1\na: [1, 2\nb: 1\n", "3:1", `a list that begins with "[" is not closed`},
		{"x: 1\na: {b: 2\nc: 1\n", "3:1", `a map that begins with "{" is not closed`},
		{"- {path: /a/b?, value: sesame}\n", "1:1", `a value between brackets ends with "?", which begins a key in YAML; put the value in quotes`},
		{"- {value: 1, path: /a?}\n", "1:1", `put the value in quotes, as in {path: "/a/b?", value: 1}`},
		{"- [/a?, /b]\n", "1:1", `a value between brackets ends with "?"`},
		{"- {path: \"/a?\", value: 1\n", "1:1", `is not closed`},
		{"x: 1\nb\nc: 1\n", "2:1", `neither "key: value" nor "- item"`},
		{"x: 1\nb: *sesame\n", "2:1", "is an alias, and its anchor"},
		{"x: 1\nb: @foo\n", "2:4", "put the value in quotes"},
		{"x: 1\nb: foo: bar\n", "2:1", `put text that contains ": " in quotes`},
		{"- a\nx: 1\n", "2:1", "does not match the list"},
		{"x: 1\nb: \"\\q\"\n", "2:1", "must be written twice"},
		{"x: 1\nb: a\x07\n", "2:5", "control characters"},
		{"\xff\xfe\n", "1:1", "not text in UTF-8"},
		{"x: \"\xc3\x28\"\n", "1:5", "not text in UTF-8"},
		{"x: !!int sesame\n", "1:4", "has the tag !!int"},
		{"x: !!binary '?'\n", "1:4", "not valid base64"},
		{"x: 1\n<<: 3\n", "2:5", "the merge key << needs a map"},
		{"? [a]\n: b\n", "1:3", "a key must be text"},
	} {
		d := parse("m.yml", []byte(tt.text))
		if len(d.problems) != 1 {
			t.Errorf("%q: got %v", tt.text, d.problems)
			continue
		}
		got := d.problems[0].String()
		if !strings.HasPrefix(got, "m.yml:"+tt.place+": ") || !strings.Contains(got, tt.want) || strings.Contains(got, "sesame") {
			t.Errorf("%q: got %s, want %s: %s", tt.text, got, tt.place, tt.want)
		}
	}
}
