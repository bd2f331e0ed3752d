package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
)

// operation says how to answer a message.
type operation struct {
	run func(context.Context, *call) (any, error)
	// background is the lowest protocol in which the reply is a task.
	background int
	cancelable bool
	// resumed returns the result of a task that restarts the agent; nil: a restart loses
	// the task.
	resumed any
}

// never is higher than all protocols: the message is always answered directly.
const never = 1 << 30

// operations is the table of all messages.
func (b *messageBus) operations() map[string]operation {
	a := b.agent
	return map[string]operation{
		"ping":        {run: ping, background: never},
		"info":        {run: info, background: never},
		"get_task":    {run: b.getTask, background: never},
		"cancel_task": {run: b.cancelTask, background: never},

		"prepare":    {run: a.jobs.prepare},
		"apply":      {run: a.jobs.apply},
		"start":      {run: a.jobs.start, background: never},
		"stop":       {run: a.jobs.stop},
		"drain":      {run: a.scripts.drain, cancelable: true},
		"get_state":  {run: a.getState, background: never},
		"run_script": {run: a.scripts.runScript},
		"run_errand": {run: a.scripts.runErrand, cancelable: true},

		"compile_package":                 {run: a.compiler.compilePackage},
		"compile_package_with_signed_url": {run: a.compiler.compileSigned},
		"upload_blob":                     {run: a.blobs.uploadBlob},

		"list_disk":              {run: a.disks.list, background: 3},
		"mount_disk":             {run: a.disks.mountMessage},
		"unmount_disk":           {run: a.disks.unmountMessage},
		"migrate_disk":           {run: a.disks.migrateMessage},
		"add_persistent_disk":    {run: a.disks.addPersistent},
		"remove_persistent_disk": {run: a.disks.removePersistent},
		"add_dynamic_disk":       {run: a.disks.addDynamic},
		"remove_dynamic_disk":    {run: a.disks.removeDynamic, background: never},

		"fetch_logs":                 {run: a.logs.fetch},
		"fetch_logs_with_signed_url": {run: a.logs.fetchSigned},
		"bundle_logs":                {run: a.logs.bundle, background: never},
		"remove_file":                {run: a.logs.removeFile, background: never},
		"sync_dns":                   {run: a.dns.sync, background: never},
		"sync_dns_with_signed_url":   {run: a.dns.syncSigned, background: never},
		"update_settings":            {run: b.updateSettings, resumed: "ok"},
		"delete_arp_entries":         {run: deleteARPEntries, background: never},
		"ssh":                        {run: a.ssh, background: never},
		"shutdown":                   {run: b.shutdown, background: never},
	}
}

// call is one message to an operation.
type call struct {
	args     []json.RawMessage
	protocol int
}

// bind decodes the arguments by position. At least need arguments are required; surplus
// ones are ignored.
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

// answer carries out a message and returns the reply; an error means that the body is not
// a message.
func (b *messageBus) answer(ctx context.Context, body []byte) (any, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	op, known := b.messages[r.Method]
	if !known {
		b.agent.log.Warn("got an unknown message", "method", r.Method)
		return exception(failf("unknown message %s", r.Method)), nil
	}
	if r.Method != "ping" && r.Method != "get_task" && r.Method != "get_state" {
		b.agent.log.Info("got a message", "method", r.Method)
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
			b.agent.log.Error("a message failed", "method", r.Method, "cause", err)
			return exception(failf("Action Failed %s: %w", r.Method, err)), nil
		}
		return valueReply{value}, nil
	}
	task := &task{id: newID(), run: run, cancelable: op.cancelable}
	if op.resumed != nil {
		if err := b.agent.restarting.add(task.id, r.Method); err != nil {
			return exception(failf("Action Failed %s: %w", r.Method, err)), nil
		}
		task.ended = func() { b.agent.restarting.remove(task.id) }
	}
	if err := b.tasks.start(ctx, task); err != nil {
		return exception(failf("Create Task Failed %s: %w", r.Method, err)), nil
	}
	return valueReply{stateValue{ID: task.id, State: "running"}}, nil
}

// rememberedTask is a task that ends when the agent has restarted.
type rememberedTask struct {
	ID     string `json:"id"`
	Method string `json:"method"`
}

// taskFile stores tasks while the agent restarts.
type taskFile struct {
	path string
	log  *slog.Logger

	mu sync.Mutex // one change at a time
}

// add stores a task.
func (f *taskFile) add(id, method string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []rememberedTask
	if err := readJSON(f.path, &list); err != nil {
		return err
	}
	return writeJSON(f.path, append(list, rememberedTask{id, method}), 0o600)
}

// remove removes a task from the file.
func (f *taskFile) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []rememberedTask
	err := readJSON(f.path, &list)
	if err == nil {
		list = slices.DeleteFunc(list, func(t rememberedTask) bool { return t.ID == id })
		err = writeJSON(f.path, list, 0o600)
	}
	if err != nil {
		f.log.Error("cannot forget a task", "task", id, "cause", err)
	}
}

// takeAll returns the tasks and removes them from the file.
func (f *taskFile) takeAll() ([]rememberedTask, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []rememberedTask
	if err := readJSON(f.path, &list); err != nil {
		return nil, err
	}
	return list, removeFiles(f.path)
}

// resumeTasks ends the tasks that restarted the agent.
func (b *messageBus) resumeTasks() error {
	list, err := b.agent.restarting.takeAll()
	if err != nil {
		return err
	}
	for _, t := range list {
		b.tasks.add(t.ID, b.messages[t.Method].resumed)
	}
	return nil
}

func ping(context.Context, *call) (any, error) { return "pong", nil }

func info(context.Context, *call) (any, error) { return map[string]int{"api_version": 1}, nil }

func (b *messageBus) getTask(_ context.Context, c *call) (any, error) {
	var id string
	if err := c.bind(1, &id); err != nil {
		return nil, err
	}
	return b.tasks.result(id)
}

func (b *messageBus) cancelTask(_ context.Context, c *call) (any, error) {
	var id string
	if err := c.bind(1, &id); err != nil {
		return nil, err
	}
	return "canceled", b.tasks.stop(id)
}

// updateSettings is the message update_settings: it stores the new settings. If the
// settings of the bus changed, the agent restarts, and the task ends only then.
func (b *messageBus) updateSettings(ctx context.Context, c *call) (any, error) {
	var u updateSettings
	if err := c.bind(1, &u); err != nil {
		return nil, err
	}
	if err := b.agent.settings.load(ctx); err != nil {
		return nil, err
	}
	for _, d := range u.DiskAssociations {
		disk, err := b.agent.settings.disk(d.CID)
		if err != nil {
			return nil, failf("Fetching disk settings: %w", err)
		}
		if err := b.agent.disks.associate(d.Name, disk); err != nil {
			return nil, err
		}
	}
	if err := b.agent.disks.keepOnly(u.names()); err != nil {
		return nil, err
	}
	restart, err := b.agent.settings.apply(u)
	if err != nil {
		return nil, err
	}
	if restart {
		b.end(errRestart)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return "ok", nil
}

// shutdown is the message shutdown: it ends the processes of the VM and the
// agent.
func (b *messageBus) shutdown(context.Context, *call) (any, error) {
	b.end(errPowerOff)
	return "", nil
}

func deleteARPEntries(_ context.Context, c *call) (any, error) {
	var arg struct {
		IPs []string `json:"ips"`
	}
	return struct{}{}, c.bind(1, &arg)
}
