package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/number"
	"bootstrap/internal/spelling"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// readUpdate reads the rules of the update. The members are read before it.
func (r *reader) readUpdate(v document.Value) {
	if !sections.StrictMap(v, "update") {
		return
	}
	u := &r.fleet.Update
	choose(v.Get("strategy"), &u.Strategy, UpdateStrategy, RecreateStrategy)
	r.readCanaries(v.Get("canaries"))
	readShare(v.Get("max_in_flight"), &u.MaxInFlight, 1)
	r.readWaves(v.Get("waves"))
	if bake := v.Get("bake"); bake.IsMap() && sections.StrictMap(bake, "update.bake") {
		u.BakeCanaries, u.BakeWaves = bake.Get("canaries").Seconds(), bake.Get("waves").Seconds()
	} else {
		u.BakeCanaries = bake.Seconds()
		u.BakeWaves = u.BakeCanaries
	}
	readWhole(v.Get("max_failures"), "how many members may fail", &u.MaxFailures)
	if busy := v.Get("retry_busy"); sections.StrictMap(busy, "update.retry_busy") {
		readWhole(busy.Get("rounds"), "how often they are tried again", &u.RetryBusy.Rounds)
		if wait := busy.Get("wait"); !wait.IsNull() {
			u.RetryBusy.Wait = wait.Seconds()
		}
	}
	choose(v.Get("on_failure"), &u.OnFailure, KeepFailed, PutBack)
	choose(v.Get("unreachable"), &u.Unreachable, FailUnreachable, SkipUnreachable)
	choose(v.Get("order"), &u.Order, FileOrder, NameOrder, RandomOrder)
	u.Timeout = v.Get("timeout").Seconds()
	u.CanaryWatch = readWatchTime(v.Get("canary_watch_time"))
	u.UpdateWatch = readWatchTime(v.Get("update_watch_time"))
}

// choose reads one of a few words.
func choose[T ~string](v document.Value, chosen *T, options ...T) {
	text, ok := v.Text()
	if !ok {
		return
	}
	if !slices.Contains(options, T(text)) {
		words := make([]string, len(options))
		for i, option := range options {
			words[i] = string(option)
		}
		last := len(words) - 1
		v.Fail("must be %s or %s, but is %q%s", strings.Join(words[:last], ", "), words[last], text, spelling.Suggest(text, words))
		return
	}
	*chosen = T(text)
}

// readCanaries reads the number of canaries, and which members they may be.
func (r *reader) readCanaries(v document.Value) {
	c := &r.fleet.Update.Canaries
	if !v.IsMap() {
		readShare(v, &c.Count, 0)
		return
	}
	sections.StrictMap(v, "update.canaries")
	readShare(v.Get("count"), &c.Count, 0)
	place := v.Get("label")
	text, ok := place.Text()
	if !ok {
		return
	}
	s, err := ParseSelector(text)
	if err != nil || s.Label == "" {
		place.Fail("must be LABEL=VALUE, as in tier=canary, but is %q", text)
		return
	}
	c.Of = text
	if r.unsure {
		return
	}
	if err := s.Check(r.fleet.Members); err != nil {
		place.Fail("%s", err.Error())
	}
}

// readWaves reads the sizes of the waves.
func (r *reader) readWaves(v document.Value) {
	if v.IsList() && v.Len() == 0 {
		v.Fail("must contain at least one size, or be left out")
	}
	for _, item := range v.Items() {
		size := Count(1)
		if item.IsNull() {
			item.Fail("must be provided: the size of the wave")
		}
		readShare(item, &size, 1)
		r.fleet.Update.Waves = append(r.fleet.Update.Waves, size)
	}
}

// readShare reads a number of members or a percentage of them.
func readShare(v document.Value, share *Share, least int) {
	allowed := "must be a number of members or a percentage, at most 100%"
	if least > 0 {
		allowed = "must be a number of members or a percentage, at least 1 and at most 100%"
	}
	if v.IsList() || v.IsMap() {
		v.Fail("%s, not %s", document.Literal(allowed), v.Describe())
		return
	}
	text, ok := v.Text()
	if !ok {
		return
	}
	parsed, ok := ParseShare(strings.TrimSpace(text))
	if !ok || parsed.n < least {
		v.Fail("%s, but is %q", document.Literal(allowed), text)
		return
	}
	*share = parsed
}

// mostCount is the largest count in a fleet file.
const mostCount = 1_000_000

// readWhole reads a count.
func readWhole(v document.Value, about string, n *int) {
	if count, ok := v.Whole(number.Bound{Most: mostCount, About: about}); ok {
		*n = count
	}
}

// readWatchTime reads a watch time.
func readWatchTime(v document.Value) string {
	text, ok := v.Text()
	if !ok {
		return ""
	}
	watch, err := manifest.ParseDirectorWatchTime(text)
	if err != nil {
		v.Fail(`%q %s; expected "SHORTEST-LONGEST" in milliseconds, of at most a year, such as 30000-600000, or one number`, text, document.Literal(err.Error()))
		return ""
	}
	return fmt.Sprintf("%d-%d", watch.Min/time.Millisecond, watch.Max/time.Millisecond)
}
