// Package number reads whole numbers within a bound. What is not a whole number, or is
// outside of the bound, is an error and never another number.
package number

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// MaxMiB is the largest size in MiB of a disk or of memory: 1 PiB. In bytes it is far below
// the largest int64.
const MaxMiB = 1 << 30

// Bound is the range of a whole number.
type Bound struct {
	Least, Most int
	About       string // what the number is, with its unit, for messages; may be empty
}

// Error says that a value is not a whole number of a bound. Its text begins with "must
// be".
type Error struct {
	Bound Bound
	Is    string // for example "but is 70000" or "not text"
}

// Error returns the demand, what the value is, and what it is for.
func (e *Error) Error() string {
	text := fmt.Sprintf("must be a whole number %s, %s", e.Bound, e.Is)
	if e.Bound.About != "" {
		text += ": " + e.Bound.About
	}
	return text
}

// String returns the range: from 1 to 65535.
func (b Bound) String() string { return fmt.Sprintf("from %d to %d", b.Least, b.Most) }

// Of reads a decoded value of YAML or JSON. Like YAML's readers it accepts a number with a
// fraction of zero, such as 1e3. It refuses text, also text with a number in it.
func (b Bound) Of(value any) (int, error) {
	switch v := value.(type) {
	case int:
		return b.check(v)
	case int64:
		if int64(int(v)) == v {
			return b.check(int(v))
		}
	case uint64:
		if v <= math.MaxInt {
			return b.check(int(v)) // #nosec G115 -- compared
		}
	case float64:
		// Floats of this range are exact.
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 && float64(int(v)) == v {
			return b.check(int(v))
		}
	}
	return 0, &Error{b, describe(value)}
}

// Text reads decimal digits, with a sign if the bound allows negative numbers.
func (b Bound) Text(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || b.Least >= 0 && strings.HasPrefix(text, "-0") {
		return 0, &Error{b, fmt.Sprintf("but is %q", shortened(text))}
	}
	return b.check(n)
}

// Lenient is Of, but reads text with decimal digits like a number.
func (b Bound) Lenient(value any) (int, error) {
	if text, ok := value.(string); ok {
		return b.Text(text)
	}
	return b.Of(value)
}

func (b Bound) check(n int) (int, error) {
	if n < b.Least || n > b.Most {
		return 0, &Error{b, fmt.Sprintf("but is %d", n)}
	}
	return n, nil
}

// digits matches text that looks like a whole number.
var digits = regexp.MustCompile(`^[-+]?[0-9][0-9_]*$`)

// describe says what a value is. It shows numbers, and no text.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "not null"
	case bool:
		return fmt.Sprintf("not the boolean %t", v)
	case string:
		if digits.MatchString(v) {
			return "not text (write it without quotes)"
		}
		return "not text"
	case []any:
		return "not a list"
	case map[string]any:
		return "not a map"
	case float64:
		switch {
		case math.IsNaN(v):
			return "but is .nan"
		case math.IsInf(v, 1):
			return "but is .inf"
		case math.IsInf(v, -1):
			return "but is -.inf"
		}
		return "but is " + strconv.FormatFloat(v, 'g', -1, 64)
	case int, int64, uint64:
		return fmt.Sprintf("but is %d", v)
	}
	return "but is of another type"
}

// shortened limits the length of a text in a message.
func shortened(text string) string {
	const longest = 40
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// share matches a number of things, or a percentage of them, as BOSH writes it.
var share = regexp.MustCompile(`^([0-9]+)(%?)$`)

// Share is a number of things, or a percentage of them.
type Share struct {
	N       int // at most the largest int32
	Percent bool
}

// ParseShare reads a number such as 2, or a percentage such as 50%, which may be above
// 100%. ok is false for anything else.
func ParseShare(text string) (s Share, ok bool) {
	m := share.FindStringSubmatch(text)
	if m == nil {
		return Share{}, false
	}
	n, err := Bound{Most: math.MaxInt32}.Text(m[1])
	return Share{N: n, Percent: m[2] != ""}, err == nil
}

// Of returns how many of size things the share is. A percentage is rounded down, and is at
// most size; a number is not compared with size.
func (s Share) Of(size int) int {
	if !s.Percent {
		return s.N
	}
	return min(s.N, 100) * size / 100
}
