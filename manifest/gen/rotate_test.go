package gen

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRotate(t *testing.T) {
	t.Parallel()
	cert := func(name, ca string) Definition {
		d := Definition{Name: name, Type: "certificate", Options: map[string]any{"is_ca": true}}
		if ca != "" {
			d.Options["ca"] = ca
		}
		return d
	}
	defs := []Definition{
		cert("leaf", "middle"), {Name: "password", Type: "password"}, cert("other", "root"), cert("unstored", "root"),
		cert("middle", "root"), cert("root", ""), cert("given", "static"), {Name: "static"}, {Name: "root", Type: "password"},
		cert("a", "b"), cert("b", "a"), cert("x", "y"), cert("y", ""), {Name: "user", Type: "user"}, {Name: "name", Type: "password"}, cert("named", "root"), {Name: "one", Type: "ssh"}, {Name: "two", Type: "ssh"},
	}
	uses := map[string][]string{"user": {"name"}, "named": {"user", "fixed"}, "one": {"two"}, "two": {"one"}}
	stored := map[string]any{"leaf": 1, "password": 1, "other": 1, "middle": 1, "root": 1, "given": 1, "static": 1, "a": 1, "b": 1, "x": 1, "user": 1, "named": 1, "one": 1}
	for name, c := range map[string]struct {
		names []string
		want  string
		err   string
	}{
		"nothing":      {nil, "", ""},
		"password":     {[]string{"password"}, "password", ""},
		"leaf":         {[]string{"leaf"}, "leaf", ""},
		"intermediate": {[]string{"middle"}, "middle leaf", ""},
		"root":         {[]string{"root"}, "root middle leaf other named", ""},
		"twice":        {[]string{"password", "root", "leaf", "root"}, "root middle leaf password other named", ""},
		"not stored":   {[]string{"unstored"}, "unstored", ""},
		"given ca":     {[]string{"given"}, "given", ""},
		"ca missing":   {[]string{"x"}, "y x", ""},
		"used":         {[]string{"name"}, "name user named", ""},
		"using":        {[]string{"user"}, "name user named", ""},
		"use cycle":    {[]string{"one"}, "", `cannot rotate "one": these variables depend on each other: one <- two <- one`},
		"cycle":        {[]string{"a"}, "", `cannot rotate "a": these variables depend on each other: a <- b <- a`},
		"unknown":      {[]string{"rot", "static", "leaf"}, "", `cannot rotate "rot", "static": the manifest has no such variable with a type; it has a, b, given, leaf, middle, name, named, one, other, password, root, two, unstored, user, x, y`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Rotate(defs, uses, stored, c.names)
			if strings.Join(got, " ") != c.want {
				t.Errorf("plan is %v, want %s", got, c.want)
			}
			if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("error is %v", err)
			}
		})
	}
	if _, err := Rotate(nil, nil, nil, []string{"x"}); err == nil || !strings.HasSuffix(err.Error(), "it has none") {
		t.Errorf("error is %v", err)
	}
}

// After a rotation, no stored certificate is signed by a removed CA, and every CA is
// generated before the certificates that it signs.
func TestRotateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		var defs []Definition
		stored, uses := map[string]any{}, map[string][]string{}
		for i := range n {
			d := Definition{Name: string(rune('a' + i)), Type: "certificate", Options: map[string]any{"is_ca": true}}
			if ca := rapid.IntRange(-1, n).Draw(t, "ca"); ca >= 0 {
				d.Options["ca"] = string(rune('a' + ca)) // may be its own name, or unknown
			}
			if used := rapid.IntRange(-3*n, n-1).Draw(t, "used"); used >= 0 {
				uses[d.Name] = []string{string(rune('a' + used))}
			}
			if rapid.Bool().Draw(t, "stored") {
				stored[d.Name] = true
			}
			defs = append(defs, d)
		}
		names := rapid.SliceOf(rapid.SampledFrom(defs)).Draw(t, "names")
		var chosen []string
		for _, d := range names {
			chosen = append(chosen, d.Name)
		}
		order, err := Rotate(defs, uses, stored, chosen)
		if err != nil {
			if !strings.Contains(err.Error(), "depend on each other") {
				t.Fatal(err)
			}
			return
		}
		for _, name := range chosen {
			if !slices.Contains(order, name) {
				t.Fatalf("%s is not in %v", name, order)
			}
		}
		for _, d := range defs {
			ca, _ := d.Options["ca"].(string)
			at, of := slices.Index(order, d.Name), slices.Index(order, ca)
			if of >= 0 && stored[d.Name] != nil && at < 0 || at >= 0 && of >= 0 && of > at {
				t.Fatalf("%s of %s in %v", d.Name, ca, order)
			}
		}
	})
}

func TestExpiringWithin(t *testing.T) {
	t.Parallel()
	v := values{}
	defs := []Definition{
		{"long", "certificate", quick(map[string]any{"is_ca": true, "duration": 100})},
		{"short", "certificate", quick(map[string]any{"is_ca": true, "duration": 10})},
		{"password", "password", nil},
		{"leaf", "certificate", quick(map[string]any{"ca": "long", "duration": 20})},
		{"unstored", "certificate", quick(map[string]any{"ca": "long"})},
	}
	for _, d := range defs[:4] {
		v.add(t, d.Type, d.Name, d.Options)
	}
	for days, want := range map[int]string{0: "", 9: "", 15: "short", 30: "short leaf", 200: "long short leaf"} {
		if got := strings.Join(ExpiringWithin(defs, v, time.Now(), time.Duration(days)*24*time.Hour), " "); got != want {
			t.Errorf("%d days: %s, want %s", days, got, want)
		}
	}
	if got := ExpiringWithin(defs, v, time.Now().Add(50*24*time.Hour), 0); strings.Join(got, " ") != "short leaf" {
		t.Errorf("expired: %v", got)
	}
}
