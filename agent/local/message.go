package local

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
)

// operation is how a message is answered.
type operation struct {
	run func(context.Context, *call) (any, error)
	// background is the lowest protocol from which on the reply is a task.
	background int
	cancelable bool
	// resumed is the result of a task whose agent has begun anew since; nil
	// for tasks that are lost then.
	resumed any
}

// never is the protocol of a message that is answered at once.
const never = 1 << 30

// operations is the table of all messages.
func (l *life) operations() map[string]operation {
	v := l.vm
	return map[string]operation{
		"ping":        {run: v.ping, background: never},
		"info":        {run: v.info, background: never},
		"get_task":    {run: l.getTask, background: never},
		"cancel_task": {run: l.cancelTask, background: never},

		"prepare":    {run: v.prepare},
		"apply":      {run: v.apply},
		"start":      {run: v.start, background: never},
		"stop":       {run: v.stop},
		"drain":      {run: v.drain, cancelable: true},
		"get_state":  {run: v.getState, background: never},
		"run_script": {run: v.runScript},
		"run_errand": {run: v.runErrand, cancelable: true},

		"compile_package": {run: v.compilePackage},
		"upload_blob":     {run: v.uploadBlob},

		"list_disk":              {run: v.listDisk, background: 3},
		"mount_disk":             {run: v.mountDisk},
		"unmount_disk":           {run: v.unmountDisk},
		"migrate_disk":           {run: v.migrateDisk},
		"add_persistent_disk":    {run: v.addPersistentDisk},
		"remove_persistent_disk": {run: v.removePersistentDisk},
		"add_dynamic_disk":       {run: v.addDynamicDisk},
		"remove_dynamic_disk":    {run: v.removeDynamicDisk, background: never},

		"fetch_logs":         {run: v.fetchLogs},
		"bundle_logs":        {run: v.bundleLogs, background: never},
		"remove_file":        {run: v.removeFile, background: never},
		"sync_dns":           {run: v.syncDNS, background: never},
		"update_settings":    {run: l.updateSettings, resumed: "ok"},
		"delete_arp_entries": {run: v.deleteARPEntries, background: never},
		"ssh":                {run: v.ssh, background: never},
		"shutdown":           {run: l.shutdown, background: never},
	}
}

// call is one message as its operation sees it.
type call struct {
	args     []json.RawMessage
	protocol int
}

// bind reads the arguments by their position; at least need must be there,
// and what is too much is not looked at.
func (c *call) bind(need int, into ...any) error {
	const prefix = "Extracting method arguments from payload: "
	if len(c.args) < need {
		return failf(prefix+"Not enough arguments, expected %d, got %d", need, len(c.args))
	}
	for i, target := range into {
		if i == len(c.args) {
			break
		}
		if err := json.Unmarshal(c.args[i], target); err != nil {
			return failf(prefix+"Unmarshalling action argument: %w", err)
		}
	}
	return nil
}

type valueReply struct {
	Value any `json:"value"`
}

type exceptionReply struct {
	Exception struct {
		Message string `json:"message,omitempty"`
	} `json:"exception"`
}

func exception(err error) exceptionReply {
	var r exceptionReply
	r.Exception.Message = err.Error()
	return r
}

// request is a message on the wire.
type request struct {
	Method    string          `json:"method"`
	Arguments json.RawMessage `json:"arguments"`
	ReplyTo   string          `json:"reply_to"`
	Protocol  int             `json:"protocol"`
}

// answer does what a message asks and returns the reply; the error means that
// the body was no message.
func (l *life) answer(ctx context.Context, body []byte) (any, error) {
	v := l.vm
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	op, known := l.messages[r.Method]
	if !known {
		v.log.Warn("an unknown message came", "method", r.Method)
		return exception(failf("unknown message %s", r.Method)), nil
	}
	if r.Method != "ping" && r.Method != "get_task" && r.Method != "get_state" {
		v.log.Info("a message came", "method", r.Method)
	}
	run := func(ctx context.Context) (any, error) {
		c := &call{protocol: r.Protocol}
		if len(r.Arguments) > 0 && !bytes.Equal(r.Arguments, []byte("null")) {
			if err := json.Unmarshal(r.Arguments, &c.args); err != nil {
				return nil, failf("Extracting json arguments: Unmarshalling payload arguments to interface{} types: %w", err)
			}
		}
		return op.run(ctx, c)
	}
	if r.Protocol < op.background {
		value, err := runSafely(ctx, run)
		if err != nil {
			v.log.Error("a message failed", "method", r.Method, "cause", err)
			return exception(failf("Action Failed %s: %w", r.Method, err)), nil
		}
		return valueReply{value}, nil
	}
	task := &task{id: newID(), run: run, cancelable: op.cancelable}
	if op.resumed != nil {
		if err := v.rememberTask(task.id, r.Method); err != nil {
			return exception(failf("Action Failed %s: %w", r.Method, err)), nil
		}
		task.ended = func() { v.forgetTask(task.id) }
	}
	if err := l.tasks.start(ctx, task); err != nil {
		return exception(failf("Create Task Failed %s: %w", r.Method, err)), nil
	}
	return valueReply{stateValue{task.id, "running"}}, nil
}

// rememberedTask is a task that is done once the agent has begun anew.
type rememberedTask struct {
	ID     string `json:"id"`
	Method string `json:"method"`
}

func (v *vm) tasksFile() string { return v.path("bosh", "tasks.json") }

func (v *vm) rememberTask(id, method string) error {
	v.remembered.Lock()
	defer v.remembered.Unlock()
	var list []rememberedTask
	if err := readJSON(v.tasksFile(), &list); err != nil {
		return err
	}
	return writeJSON(v.tasksFile(), append(list, rememberedTask{id, method}), 0o600)
}

func (v *vm) forgetTask(id string) {
	v.remembered.Lock()
	defer v.remembered.Unlock()
	var list []rememberedTask
	err := readJSON(v.tasksFile(), &list)
	if err == nil {
		list = slices.DeleteFunc(list, func(t rememberedTask) bool { return t.ID == id })
		err = writeJSON(v.tasksFile(), list, 0o600)
	}
	if err != nil {
		v.log.Error("a task cannot be forgotten", "task", id, "cause", err)
	}
}

// resumeTasks answers for the tasks that a life of the agent ended with.
func (l *life) resumeTasks() error {
	var list []rememberedTask
	if err := readJSON(l.vm.tasksFile(), &list); err != nil {
		return err
	}
	for _, t := range list {
		l.tasks.add(t.ID, l.messages[t.Method].resumed)
	}
	return removeFiles(l.vm.tasksFile())
}

func (v *vm) ping(context.Context, *call) (any, error) { return "pong", nil }

func (v *vm) info(context.Context, *call) (any, error) { return map[string]int{"api_version": 1}, nil }

func (l *life) getTask(_ context.Context, c *call) (any, error) {
	var id string
	if err := c.bind(1, &id); err != nil {
		return nil, err
	}
	return l.tasks.result(id)
}

func (l *life) cancelTask(_ context.Context, c *call) (any, error) {
	var id string
	if err := c.bind(1, &id); err != nil {
		return nil, err
	}
	return "canceled", l.tasks.stop(id)
}

// updateSettings saves what it says; the agent begins anew where it says
// something else about the bus, and only then the task is done.
func (l *life) updateSettings(ctx context.Context, c *call) (any, error) {
	v := l.vm
	var u updateSettings
	if err := c.bind(1, &u); err != nil {
		return nil, err
	}
	if err := v.settings.load(ctx); err != nil {
		return nil, err
	}
	for _, d := range u.DiskAssociations {
		disk, err := v.settings.disk(d.CID)
		if err != nil {
			return nil, failf("Fetching disk settings: %w", err)
		}
		if err := v.associate(d.Name, disk); err != nil {
			return nil, err
		}
	}
	anew, err := v.settings.apply(u)
	if err != nil {
		return nil, err
	}
	if anew {
		l.end(errRestart)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return "ok", nil
}

// shutdown powers the VM off: its processes end and so does the agent.
func (l *life) shutdown(context.Context, *call) (any, error) {
	l.end(errPowerOff)
	return "", nil
}

func (v *vm) deleteARPEntries(_ context.Context, c *call) (any, error) {
	var arg struct {
		IPs []string `json:"ips"`
	}
	return struct{}{}, c.bind(1, &arg)
}
