package instances

import (
	"errors"
	"fmt"
	"strings"
)

// FailedError says for which instances a command has failed.
type FailedError struct {
	Of    int      // how many instances the command was about
	Names []string // of the instances that failed
	Errs  []error  // one for each
}

func (e *FailedError) Error() string {
	if len(e.Errs) == 1 {
		return e.Names[0] + ": " + e.Errs[0].Error()
	}
	text := fmt.Sprintf("%d of %d instances failed:", len(e.Errs), e.Of)
	var causes []string
	names := map[string][]string{} // by cause
	for i, err := range e.Errs {
		cause := err.Error()
		if len(names[cause]) == 0 {
			causes = append(causes, cause)
		}
		names[cause] = append(names[cause], e.Names[i])
	}
	for _, cause := range causes {
		list := names[cause]
		if more := len(list) - mostNamed; more > 0 {
			list = append(list[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
		}
		text += "\n- " + strings.Join(list, ", ") + ": " + cause
	}
	return text
}

// mostNamed is how many instances are named with a cause.
const mostNamed = 20

// Unwrap returns the errors of the instances.
func (e *FailedError) Unwrap() []error { return e.Errs }

// Failed returns the errors that Each has returned as one; nil if all are nil.
func (s *Selection) Failed(errs []error) error {
	failed := &FailedError{Of: len(s.List)}
	for i, err := range errs {
		switch {
		case err == nil:
		case i >= len(s.List): // of no instance
			return errors.Join(errs[i:]...)
		default:
			failed.Names, failed.Errs = append(failed.Names, s.List[i].Name()), append(failed.Errs, err)
		}
	}
	if len(failed.Errs) == 0 {
		return nil
	}
	return failed
}
