package instances

import (
	"errors"
	"strings"
	"testing"

	"bootstrap/cmd/exit"
	"bootstrap/deployment/record"
	"bootstrap/internal/failure"
)

// Lines of several instances are whole, and have the name of the instance.
func TestPrefix(t *testing.T) {
	var out strings.Builder
	p := NewPrefix(&out)
	a, b := p.Of("web/0"), p.Of("web/1")
	for _, w := range []struct {
		to   *Lines
		text string
	}{{a, "one\ntw"}, {b, "three\n"}, {a, "o\n\n"}, {b, "four"}} {
		if n, err := w.to.Write([]byte(w.text)); n != len(w.text) || err != nil {
			t.Fatal(n, err)
		}
	}
	for _, w := range []*Lines{a, b} {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if want := "web/0 | one\nweb/1 | three\nweb/0 | two\nweb/0 | \nweb/1 | four\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

type silent struct{}

func (silent) Error() string { return "it is silent" }

func (silent) ExitCode() failure.Code { return failure.Agent }

// The error of several names each instance, and has the exit code of one of them.
func TestFailed(t *testing.T) {
	s := &Selection{}
	for i := range 3 {
		s.List = append(s.List, &record.Instance{Group: "web", Index: i})
	}
	if err := s.Failed([]error{nil, nil, nil}); err != nil {
		t.Error(err)
	}
	err := s.Failed([]error{nil, silent{}, nil})
	if code, _ := exit.Judge(err); code != exit.Agent || err.Error() != "web/1: it is silent" {
		t.Error(code, err)
	}
	err = s.Failed([]error{silent{}, nil, silent{}})
	if want := "2 of 3 instances failed:\n- web/0, web/2: it is silent"; err.Error() != want {
		t.Error(err)
	}
	err = s.Failed([]error{errors.New("it is wrong"), nil, silent{}})
	if code, _ := exit.Judge(err); code != exit.Agent || err.Error() != "2 of 3 instances failed:\n- web/0: it is wrong\n- web/2: it is silent" {
		t.Error(code, err)
	}
}
