package pagetest

import (
	"slices"
	"strings"
	"testing"
)

func TestBlocks(t *testing.T) {
	page := "# A\n\n<!-- before:\ncp a b\n\ncp c d\n-->\n```console\n$ one \\\n  two\nout\n\n$ three\n```\n\n<!-- not run: needs AWS -->\ntext\n\n```sh\na\n```\n<!-- not run: needs\n     AWS -->\n\n  ```yaml\n  a:\n    b\n  ```\n"
	got := Blocks(page)
	if len(got) != 3 || got[0].Before != "cp a b\n\ncp c d\n" || got[1].NotRun != "" || got[2].NotRun != "needs AWS" || got[2].Text != "a:\n  b\n" || got[0].Line != 8 {
		t.Fatalf("%+v", got)
	}
	steps := got[0].Commands()
	if len(steps) != 2 || steps[0].Command != "one \\\n  two" || strings.Join(steps[0].Output, "|") != "out|" || steps[1].Command != "three" {
		t.Errorf("%+v", steps)
	}
	if steps := got[1].Commands(); len(steps) != 1 || steps[0].Command != "a\n" {
		t.Errorf("%+v", steps)
	}
}

func TestCalls(t *testing.T) {
	for script, want := range map[string]string{
		"bootstrap deploy m.yml -v 'a b=c' # why":                           "deploy,m.yml,-v,a b=c",
		"cd x && ./bootstrap plan m.yml >out; echo bootstrap nope":          "plan,m.yml",
		"A=b sudo bootstrap ssh m.yml -- df -h | grep x":                    "ssh,m.yml,--,df,-h",
		"x=$(bootstrap status m.yml --json)":                                "status,m.yml,--json",
		"if ! bootstrap a \\\n  b; then\n  bootstrap c\nfi":                 "a,b c",
		"jq x <<<\"$(bootstrap y)\"\ncurl http://bootstrap/x\n#bootstrap z": "",
	} {
		var calls []string
		for _, call := range Calls(script) {
			calls = append(calls, strings.Join(call, ","))
		}
		if got := strings.Join(calls, " "); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func TestFits(t *testing.T) {
	output := "Started\n  Creating VM 'vm-0123456789abcdef'... Finished (1.1s)\nmore\nInstance 'web/0' is running\n"
	for _, c := range []struct {
		shown string
		lacks string
	}{
		{"Started\n…\nInstance 'web/0' is running", ""},
		{"Creating VM 'vm-ffffffffffffffff'... Finished (0.2s)", ""},
		{"Instance … is running\nStarted", "Started"},
		{"Instance 'db/0' is running", "Instance 'db/0' is running"},
	} {
		if got := Fits(strings.Split(c.shown, "\n"), output); got != c.lacks {
			t.Errorf("%q: lacks %q, want %q", c.shown, got, c.lacks)
		}
	}
	if !slices.Equal([]string{Plain("14 days left  3.2 MiB")}, []string{"DAYS left SIZE"}) {
		t.Error(Plain("14 days left  3.2 MiB"))
	}
}
