package manifest

import (
	"errors"
	"strings"
	"time"

	"bootstrap/internal/number"
	"bootstrap/manifest/document"
)

// readUpdate reads update of the manifest or, with a cloud config, of the group, whose
// values replace those of the manifest.
func (r *reader) readUpdate(c document.Value) {
	if !sections.Map(c, "update") {
		return
	}
	place := c.Get("update_watch_time")
	if text, ok := place.Text(); ok {
		parse := ParseWatchTime
		if r.shared != nil {
			parse = ParseDirectorWatchTime
		}
		watch, err := parse(text)
		if err != nil {
			failWatch(place, text, err, document.Value.Fail)
		}
		r.manifest.Update.WatchTime = watch
	}
	if fail := document.Value.Fail; r.many == nil {
		if r.shared == nil {
			fail = document.Value.Warn // create-env does not read these keys
		}
		new(Rules).read(c, fail)
	}
	place = c.Get("vm_strategy")
	if text, ok := place.Text(); ok {
		if text != "delete-create" && text != "create-swap-delete" {
			place.Fail("must be delete-create or create-swap-delete, or be left out, but is %q", text)
		}
		r.manifest.Update.VMStrategy = text
	}
	if text, ok := c.Get("crash_loops").Text(); ok {
		switch place := c.Get("crash_loops"); text {
		case WaitForCrashLoops:
			r.manifest.Update.CrashLoops = text
		case "end":
			r.manifest.Update.CrashLoops = ""
		default:
			place.Fail("must be end or wait, or be left out, but is %q", text)
		}
	}
	if place := c.Get("snapshot"); !place.IsNull() {
		r.manifest.Update.Snapshot = place.LenientFlag(true)
	}
}

// failWatch reports a wrong watch time.
func failWatch(place document.Value, text string, err error, fail func(at document.Value, format string, args ...any)) {
	fail(place, `%q %s; expected "SHORTEST-LONGEST" in milliseconds, from 0 to %d, such as 0-300000`, text, document.Literal(err.Error()), maxWatch)
}

// ParseWatchTime reads "min-max" in milliseconds, as update_watch_time has it.
func ParseWatchTime(text string) (WatchTime, error) {
	parts := strings.Split(text, "-")
	if len(parts) != 2 {
		return WatchTime{}, errors.New("is not a range of two times")
	}
	var limits [2]time.Duration
	for i, part := range parts {
		digits := strings.Trim(part, " ")
		ms, err := number.Bound{Most: maxWatch}.Text(digits)
		switch {
		case digits == "" || strings.Trim(digits, "0123456789") != "":
			return WatchTime{}, errors.New("is not a range of two whole numbers")
		case err != nil:
			return WatchTime{}, errors.New("is longer than a year")
		}
		limits[i] = time.Duration(ms) * time.Millisecond
	}
	if limits[1] < limits[0] {
		return WatchTime{}, errors.New("ends before it begins")
	}
	return WatchTime{Min: limits[0], Max: limits[1]}, nil
}

// ParseDirectorWatchTime reads "min-max" or, as the Director allows, a single number for
// both, in milliseconds.
func ParseDirectorWatchTime(text string) (WatchTime, error) {
	if single := strings.TrimSpace(text); !strings.Contains(text, "-") {
		text = single + "-" + single
	}
	return ParseWatchTime(text)
}
