package report

// Output reports the progress of one run: stages in an open group, or in the run itself.
type Output struct {
	Root *Stage // stage of the run
	Open *Stage // the open group, or Root

	group string // the name of the open group
}

// NewOutput returns the output of a run without an open group.
func NewOutput(root *Stage) *Output { return &Output{Root: root, Open: root} }

// Info reports a message for people.
func (o *Output) Info(message string) { o.Root.Info(message) }

// Warning reports a message about which people should do something.
func (o *Output) Warning(message string) { o.Root.Warning(message) }

// Enter ends the open group, with err, and begins another one if group is not empty.
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

// InGroup runs fn in a new group, and then opens the earlier group again.
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
