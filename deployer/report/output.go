package report

// Output is where one run reports what it does: stages in an open group, or in
// the run itself.
type Output struct {
	Root *Stage // the run
	Open *Stage // the open group, or Root

	group string // the name of the open group
}

// NewOutput returns the output of a run without an open group.
func NewOutput(root *Stage) *Output { return &Output{Root: root, Open: root} }

// Info passes on a message for the person.
func (o *Output) Info(message string) { o.Root.Info(message) }

// Warning passes on a message for the person to act on.
func (o *Output) Warning(message string) { o.Root.Warning(message) }

// Enter ends the open group, with err, and begins another one if group is not
// empty.
func (o *Output) Enter(group string, err error) {
	if group == o.group && err == nil {
		return
	}
	if o.group != "" {
		_ = o.Open.End(err)
	}
	o.group, o.Open = group, o.Root
	if group != "" {
		o.Open = o.Root.Begin(group, true)
	}
}

// InGroup runs fn in a group of its own and returns to the open one.
func (o *Output) InGroup(group string, do func() error) error {
	open := o.Open
	o.Open = o.Root.Begin(group, true)
	err := do()
	_ = o.Open.End(err)
	o.Open = open
	return err
}

// Do runs fn as a stage of the open group.
func (o *Output) Do(name string, fn func(*Stage) error) error { return o.Open.Do(name, fn) }
