package scaffold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"bootstrap/cmd/cli"
)

// questions asks a person on a terminal; the zero value asks no questions.
type questions struct {
	dialogue *cli.Dialogue // nil: questions are impossible
	named    bool          // flags name the provider and the purpose
}

// complete asks for missing parts of the request, and carries it out.
func (q *questions) complete(ctx context.Context, r *Request, from Source) (*Result, error) {
	if q.dialogue != nil { // so that nobody answers for nothing
		if err := r.refuseExisting(); err != nil {
			return nil, err
		}
	}
	q.named = r.Provider != "" && r.Purpose != ""
	for _, open := range []struct {
		to    *string
		about string
		of    []string
	}{{&r.Provider, "Where does the VM run?", providers()}, {&r.Purpose, "What is the VM for?", purposes()}} {
		if *open.to == "" {
			var err error
			if *open.to, err = q.choose(ctx, open.about, open.of); err != nil {
				return nil, err
			}
		}
	}
	if q.dialogue != nil && !q.named && r.Purpose == release && r.Release == "" {
		if err := q.release(ctx, r, from); err != nil {
			return nil, err
		}
	}
	if err := r.prepare(ctx, from); err != nil {
		return nil, err
	}
	if jobs := r.openJobs(); len(jobs) > 0 {
		if q.dialogue == nil {
			return nil, refuse("the release %s has several jobs: choose with --job, which is repeatable, among %s", r.found.Name, strings.Join(jobs, ", "))
		}
		job, err := q.choose(ctx, "Which job of the release?", jobs)
		if err != nil {
			return nil, err
		}
		r.Jobs = []string{job}
	}
	if err := q.values(ctx, r); err != nil {
		return nil, err
	}
	return r.Run(ctx, from)
}

// release asks for the release until it can be read, or none is named.
func (q *questions) release(ctx context.Context, r *Request, from Source) error {
	q.say("Your release: a folder, an archive (.tgz) or a URL. Leave it empty for a small web page.")
	for {
		var err error
		if r.Release, err = q.line(ctx, "Release", "", false); err != nil {
			return err
		}
		if isURL(r.Release) && r.SHA1 == "" {
			q.say("Its digest, as its download page shows it: SHA-1 or sha256:…")
			if r.SHA1, err = q.line(ctx, "digest", "", false); err != nil {
				return err
			}
		}
		if err = r.readRelease(ctx, from); err == nil || ctx.Err() != nil {
			return err
		}
		q.say(strings.TrimPrefix(err.Error(), "--release: "))
		r.SHA1 = ""
	}
}

// values asks for missing values. An empty answer means the proposed value; without one,
// the value is left out. It asks nothing if flags name provider and purpose, and all
// values have proposed ones.
func (q *questions) values(ctx context.Context, r *Request) error {
	open := slices.ContainsFunc(r.missing(), func(s *setting) bool { return r.proposed(s) == "" })
	if q.dialogue == nil || q.named && !open {
		r.fillIn()
		return nil
	}
	for _, s := range r.settings() {
		if r.values[s.name] != "" || r.files[s.name] != "" {
			continue
		}
		if r.Provider == "local" && strings.HasPrefix(s.name, "internal_") {
			r.values[s.name] = r.proposed(s) // it is an address of this machine, and any other would be wrong
			continue
		}
		q.say(s.about)
		for {
			answer, err := q.line(ctx, s.name, r.proposed(s), s.kind == secret)
			if err != nil {
				return err
			}
			if s.kind == file && answer != "" {
				err = r.setFile(s.name, answer)
			} else if err = s.check(answer); err == nil {
				r.values[s.name] = answer
			}
			if err == nil {
				break
			}
			q.say(err.Error())
		}
	}
	r.Incomplete = true // The person has seen which values are missing.
	return nil
}

// say prints a text, unless it is empty, in lines for the narrowest usual terminal.
func (q *questions) say(text string) {
	if len(text) >= 80 {
		text = strings.Join(wrapped(text, 79), "\n")
	}
	if text != "" {
		q.dialogue.Say(text)
	}
}

// choose asks for one of several words; the first one is the default. Without a terminal
// it returns the default.
func (q *questions) choose(ctx context.Context, about string, of []string) (string, error) {
	if q.dialogue == nil {
		return of[0], nil
	}
	q.say(about)
	for i, word := range of {
		if described := read(word)["about"]; described != "" {
			word = fmt.Sprintf("%-10s %s", word, strings.TrimSpace(described))
		}
		q.say(fmt.Sprintf("  %d  %s", i+1, word))
	}
	answer, err := q.dialogue.Choose(ctx, of)
	return answer, unanswered(err)
}

// unanswered returns the error of a question; that of a closed terminal says what it means.
func unanswered(err error) error {
	if errors.Is(err, io.EOF) {
		return refuse("the terminal was closed before all questions were answered; nothing was written")
	}
	return err
}

// line asks for one line; an empty answer means the proposed one.
func (q *questions) line(ctx context.Context, name, proposed string, hidden bool) (string, error) {
	if proposed != "" {
		name += " [" + proposed + "]"
	}
	ask := q.dialogue.Line
	if hidden {
		ask = q.dialogue.Hidden
	}
	answer, err := ask(ctx, name+": ")
	if err != nil {
		return "", unanswered(err)
	}
	return cmp.Or(strings.TrimSpace(answer), proposed), nil
}
