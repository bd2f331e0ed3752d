package cli

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/cmd/exit"
	"bootstrap/deployer"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/internal/keyorder"
	"bootstrap/state/file"
)

// Changes are the changes of a command for bootstrap events, without those that a run on an
// instance records itself.
type Changes struct {
	mu   sync.Mutex
	in   *kept.Folder // nil: nothing was changed
	list []change
}

// change is one action on some instances, variables or packages.
type change struct {
	what  string // as in "create"
	names []string
}

// Several makes the running command an event of the deployment whose record is in the
// folder dir. what is the action on the names, as "ignore" on "web/0"; empty: the command
// has begun to change something. home is ~/.bosh.
func (c *Changes) Several(home, dir, what string, names ...string) {
	c.add(kept.OfSeveral(home, dir), what, names)
}

// One is like Several for the deployment of the options, if it has a state: they name one
// instance.
func (c *Changes) One(opts deployer.Options, what string, names ...string) {
	path, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return
	}
	if st, found, err := opts.ReadState(path, opts.Home); err == nil && found && st.InstallationID != "" {
		c.add(kept.At(filepath.Join(opts.Home, st.InstallationID)), what, names)
	}
}

func (c *Changes) add(in kept.Folder, what string, names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = &in
	if what == "" {
		return
	}
	i := slices.IndexFunc(c.list, func(of change) bool { return of.what == what })
	if i < 0 {
		i = len(c.list)
		c.list = append(c.list, change{what: what})
	}
	of := &c.list[i]
	for _, name := range names {
		if !slices.Contains(of.names, name) {
			of.names = append(of.names, name)
		}
	}
}

// take returns the changes, and the folder for their event; nil: nothing was changed.
func (c *Changes) take() (in *kept.Folder, texts []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.list {
		slices.SortFunc(of.names, keyorder.Names) // They come in the order in which they ended.
		texts = append(texts, of.what+" "+strings.Join(of.names, ", "))
	}
	in, c.in, c.list = c.in, nil, nil
	return in, texts
}

// KeepChanges records what a command has changed, which began at a time and ended with err.
func (c *Console) KeepChanges(began time.Time, err error) {
	in, changed := c.Changes.take()
	if in == nil {
		return
	}
	by := c.Holder()
	took := time.Since(began).Round(time.Millisecond)
	e := kept.Event{Began: began.UTC().Truncate(time.Millisecond), Seconds: took.Seconds(), By: by.Who(), Command: by.Command, Status: statusOf(err), Changes: changed}
	if e.Status == timeline.Failed {
		e.Error = c.Redactor.String(err.Error())
	}
	if err := in.AddEvent(e); err != nil {
		c.Say(report.Warning, err.Error())
	}
}

// statusOf returns how a command has ended.
func statusOf(err error) timeline.Status {
	code, _ := exit.Judge(err)
	var result exit.Code
	switch {
	case !failure(err), errors.As(err, &result):
		return timeline.Finished
	case code == exit.Interrupted:
		return timeline.Interrupted
	}
	return timeline.Failed
}
