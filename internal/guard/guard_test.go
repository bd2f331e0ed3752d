package guard_test

import (
	"errors"
	"strings"
	"testing"

	"bootstrap/internal/guard"
)

func TestCall(t *testing.T) {
	want := errors.New("as usual")
	if err := guard.Call(func() error { return want }); err != want {
		t.Errorf("got %v", err)
	}
	if err := guard.Call(func() error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
	var caught *guard.Panic
	err := guard.Call(func() error { var list []int; list[len(list)] = 1; return nil })
	if !errors.As(err, &caught) || !strings.Contains(err.Error(), "index out of range") || !strings.Contains(string(caught.Stack), "guard_test.TestCall") {
		t.Errorf("got %v", err)
	}
}
