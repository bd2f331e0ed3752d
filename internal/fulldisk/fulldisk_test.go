package fulldisk

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// remote is the error of another program.
type remote string

func (e remote) Error() string        { return string(e) }
func (e remote) Is(target error) bool { return target == causes()[0] && Says(string(e)) }

func TestIs(t *testing.T) {
	for _, cause := range causes() {
		if err := fmt.Errorf("cannot write: %w", &fs.PathError{Op: "write", Path: "x", Err: cause}); !Is(err) {
			t.Errorf("%v is no full disk", err)
		}
	}
	if !Is(fmt.Errorf("the agent refuses: %w", remote("write /var/vcap/data/x: no space left on device"))) {
		t.Error("the words of another program are not understood")
	}
	for _, err := range []error{nil, fs.ErrPermission, remote("permission denied"), errors.New("no space left on device")} {
		if Is(err) {
			t.Errorf("%v is a full disk", err)
		}
	}
}
