package values

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// Time is a time in Go's notation, such as 90s or 2h, optionally with days
// and weeks before it, such as 30d or 3w.
type Time time.Duration

// Type returns the word for the value in help texts.
func (t *Time) Type() string { return "TIME" }

// String returns the time in the form in which a person writes it.
func (t *Time) String() string {
	d := time.Duration(*t)
	switch {
	case d == 0:
		return "0"
	case d%Day == 0:
		return strconv.FormatInt(int64(d/Day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Set reads a time.
func (t *Time) Set(text string) error {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil && strings.Trim(text, "0") != "" {
		return errors.New("say the unit, for example 5m or 30s")
	}
	rest, sum := text, time.Duration(0)
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"w", 7 * Day}, {"d", Day}} {
		number, after, found := strings.Cut(rest, unit.letter)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 63)
		if err != nil {
			return errNoTime
		}
		if n > uint64((math.MaxInt64-sum)/unit.length) {
			return errors.New("it is too long")
		}
		rest, sum = after, sum+time.Duration(n)*unit.length
	}
	if rest != "" || text == "" {
		d, err := time.ParseDuration(rest)
		switch {
		case err != nil || d < 0:
			return errNoTime
		case d > math.MaxInt64-sum:
			return errors.New("it is too long")
		}
		sum += d
	}
	*t = Time(sum)
	return nil
}

var errNoTime = errors.New("a time is written as in 30s, 10m, 2h, 30d or 3w")
