package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/internal/pagetest"
)

// Every command of this program in the blocks of the documentation exists and has the
// flags that it is given, even if no test runs it. Blocks without a language show no
// commands.
func TestCommandsOfPages(t *testing.T) {
	root := Commands()
	calls := 0
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range span.FindAllStringSubmatch(string(data), -1) {
			if strings.ContainsAny(span[1], "|{…") || strings.Contains(span[1], " COMMAND") { // a form, not a command
				continue
			}
			calls++
			if err := checkCall(root, strings.Fields(span[1])[1:]); err != nil {
				t.Errorf("%s: `%s`: %v", page, span[1], err)
			}
		}
		for _, block := range pagetest.Blocks(string(data)) {
			where := fmt.Sprintf("%s:%d", strings.TrimPrefix(page, "../"), block.Line)
			if block.Lang == "" && startsCommand(block.Text) {
				t.Errorf("%s: the block has commands: give it a language, sh, or console with $ before each command and its output below", where)
			}
			for _, step := range block.Commands() {
				for _, call := range pagetest.Calls(step.Command) {
					calls++
					if err := checkCall(root, call); err != nil {
						t.Errorf("%s: bootstrap %s: %v", where, strings.Join(call, " "), err)
					}
				}
			}
		}
	}
	t.Logf("%d calls of bootstrap", calls)
	for call, good := range map[string]bool{
		"deploy m.yml -o x.yml -v a=b --vars-store=c": true, "ssh m.yml -- ls --nope": true, "logs m.yml --tail 5": true, "state show m.yml -ny": true,
		"deploi m.yml": false, "deploy m.yml --nope": false, "deploy -q": false, "state shwo m.yml": false, "deploy m.yml -yq": false,
	} {
		if err := checkCall(root, strings.Fields(call)); (err == nil) != good {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// span matches a command within a text.
var span = regexp.MustCompile("`((?:\\./)?bootstrap [^`\n]+)`")

// pages lists the pages with commands for users.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"../README.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md", "../examples/*/README.md", "../examples/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return slices.DeleteFunc(list, func(page string) bool { return strings.HasSuffix(page, "docs/reference.md") }) // generated from the commands
}

func startsCommand(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(line, "$ ")
		if strings.HasPrefix(line, "bootstrap ") || strings.HasPrefix(line, "./bootstrap ") {
			return true
		}
	}
	return false
}

// checkCall returns an error if the words are no command of the program with its flags.
func checkCall(root *cobra.Command, words []string) error {
	cmd := root
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			return nil
		}
		if name, isLong := strings.CutPrefix(word, "--"); isLong {
			name, _, given := strings.Cut(name, "=")
			f := flagOf(cmd, func(f *pflag.Flag) bool { return f.Name == name })
			if f == nil {
				return fmt.Errorf("there is no flag --%s", name)
			}
			if !given && f.NoOptDefVal == "" {
				i++
			}
			continue
		}
		if letters, isShort := strings.CutPrefix(word, "-"); isShort && letters != "" {
			for at, letter := range letters {
				f := flagOf(cmd, func(f *pflag.Flag) bool { return f.Shorthand == string(letter) })
				if f == nil {
					return fmt.Errorf("there is no flag -%c", letter)
				}
				if f.NoOptDefVal == "" { // the rest, or the next word, is its value
					if at == len(letters)-1 {
						i++
					}
					break
				}
			}
			continue
		}
		switch sub := child(cmd, word); {
		case sub != nil:
			cmd = sub
		case cmd.HasSubCommands() && (cmd == root || cmd.Args == nil || cmd.Name() != "disks" && cmd.Name() != "snapshots" && cmd.Name() != "help"):
			return fmt.Errorf("%s has no command %q", cmd.Name(), word)
		}
	}
	return nil
}

func flagOf(cmd *cobra.Command, is func(*pflag.Flag) bool) (found *pflag.Flag) {
	cmd.InitDefaultHelpFlag()
	for _, set := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if is(f) {
				found = f
			}
		})
	}
	return found
}

// child returns the subcommand with that name or alias; nil: there is none.
func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}
