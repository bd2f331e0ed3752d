//go:build unix

package source

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"bootstrap/internal/process"
	"bootstrap/internal/programtest"
	"bootstrap/internal/wait"
)

// script writes a program and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "get")
	programtest.Write(t, path, "#!/bin/sh\n"+text)
	return path
}

func TestProgram(t *testing.T) {
	t.Parallel()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/home", "PASSED=yes it is", "HIDDEN=s3cret"}
	for name, c := range map[string]struct {
		text string
		want any
		fail string
	}{
		"text":         {text: "echo the-$1", want: "the-a/name"},
		"quoted":       {text: `echo '"0123"'`, want: "0123"},
		"map":          {text: "echo 'user: bob'; echo 'port: 22'", want: map[string]any{"user": "bob", "port": 22}},
		"JSON":         {text: `echo '{"list": [1, "two", true]}'`, want: map[string]any{"list": []any{1, "two", true}}},
		"many lines":   {text: "echo '|'; echo ' one'; echo ' two'", want: "one\ntwo\n"},
		"PEM":          {text: "echo -----BEGIN KEY-----; echo abc=; echo -----END KEY-----", want: "-----BEGIN KEY-----\nabc=\n-----END KEY-----"},
		"a comment":    {text: "echo 'pass #word'", want: "pass #word"},
		"a document":   {text: "echo ---; echo 'text #'", want: "text"},
		"none":         {text: "echo nothing is shown; echo why >&2; exit 3"},
		"empty":        {text: "echo; exit 0"},
		"null":         {text: "echo null"},
		"environment":  {text: `echo "$PASSED,$HIDDEN,$HOME"`, want: "yes it is,,/home"},
		"no input":     {text: "cat", want: nil},
		"comment":      {text: "echo '#s3cret'", fail: "begins with #, which YAML reads as a comment"},
		"no YAML":      {text: "echo '{s3cret'", fail: "cannot read its output as YAML: "},
		"fails":        {text: "echo s3cret; echo 'no such\033[31m item' >&2; exit 1", fail: "the program ends with exit status 1: no such item"},
		"fails silent": {text: "exit 7", fail: "the program ends with exit status 7"},
		"is killed":    {text: "kill -9 $$", fail: "the program ends with signal: killed"},
		"long words":   {text: "i=0; while [ $i -lt 2000 ]; do echo begin-$i-end >&2; i=$((i+1)); done; exit 1", fail: "begin-1999-end"},
		"huge":         {text: "exec cat /dev/zero", fail: "the answer is larger than the limit of 2 MiB"},
		"leaves a process that keeps the output open": {text: "(trap '' HUP; exec sleep 5) & echo done", want: "done"},
	} {
		values, err := ask(t, env, []string{"exec=" + script(t, c.text)}, "a/name")
		switch {
		case c.fail == "" && (err != nil || !reflect.DeepEqual(values["a/name"], c.want)):
			t.Errorf("%s: %v, %v, want %v", name, values, err, c.want)
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%s: %v, want %s", name, err, c.fail)
		case err != nil && (strings.Contains(err.Error(), "s3cret") || strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > maxSaid+300):
			t.Errorf("%s: the error shows too much: %q", name, err)
		}
	}
	for path, want := range map[string]string{"no-such-program-anywhere": "cannot run the program: executable file not found in $PATH", "/nowhere/get": "cannot run the program: no such file or directory"} {
		if _, err := ask(t, env, []string{"exec=" + path}, "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A program that does not end is killed together with its children, even if both ignore
// SIGTERM.
func TestProgramThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := script(t, `trap '' TERM
(trap '' TERM; sh -c 'echo $$ > `+dir+`/child; while :; do sleep 0.1; done') &
echo $$ > `+dir+`/self
while :; do sleep 0.1; done`)
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error)
	go func() {
		_, err := made(t, []string{"PATH=" + os.Getenv("PATH")}, "exec="+path).Ask(ctx, []string{"a"})
		answered <- err
	}()
	var ids []process.Identity
	for _, file := range []string{"self", "child"} {
		err := wait.Poll(t.Context(), time.Millisecond, func() (bool, error) {
			text, _ := os.ReadFile(filepath.Join(dir, file))
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				return false, nil
			}
			id, lives := process.Identify(pid)
			ids = append(ids, id)
			return lives, nil
		})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	cancel() // has the effect of the deadline
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, id := range ids {
		if err := wait.Poll(t.Context(), time.Millisecond, func() (bool, error) { return !id.Alive(), nil }); err != nil {
			t.Errorf("process %d still runs: %v", id.PID, err)
		}
	}
}

func TestSops(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sops"); err != nil {
		t.Skip("sops is not installed")
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "secrets.yml")
	cmd := exec.Command("sops", "--encrypt", "--age", key.Recipient().String(), "--input-type", "yaml", "--output-type", "yaml", "/dev/stdin")
	cmd.Stdin = strings.NewReader("password: '0123'\ndb: {user: bob, port: 5432}\n")
	encrypted, err := cmd.Output()
	if err != nil {
		failed, _ := errors.AsType[*exec.ExitError](err)
		t.Fatalf("%v: %s", err, failed.Stderr)
	}
	if err := os.WriteFile(file, encrypted, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + os.Getenv("PATH"), "SOPS_AGE_KEY=" + key.String()}
	values, err := ask(t, env, []string{"sops=" + file}, "password", "db", "none")
	if want := map[string]any{"password": "0123", "db": map[string]any{"user": "bob", "port": 5432}}; err != nil || !reflect.DeepEqual(values, want) {
		t.Errorf("%v, %v, want %v", values, err, want)
	}
	if _, err := ask(t, env[:1], []string{"sops=" + file}, "password"); err == nil || !strings.Contains(err.Error(), "the program ends with exit status 128: ") || bytes.Contains([]byte(err.Error()), []byte("0123")) {
		t.Errorf("without the key: %v", err)
	}
}

func TestSopsOfNoFile(t *testing.T) {
	t.Parallel()
	if _, err := ask(t, nil, []string{"sops=/nowhere/s.yml"}, "a"); err == nil || err.Error() != "cannot get the variable ((a)) from sops=/nowhere/s.yml: cannot read the file: no such file or directory" {
		t.Error(err)
	}
}
