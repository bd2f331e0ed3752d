// Package agent talks to the agent on a VM: it has the wire types of the HTTPS
// message protocol and a client. The embedded agent in local/agent serves the
// same types.
package agent

import "encoding/json"

// Request is one message, POSTed as JSON to <mbus>/agent.
type Request struct {
	Method    string `json:"method"`
	Arguments []any  `json:"arguments"` // never null
	ReplyTo   string `json:"reply_to"`
	// Protocol 3 makes stop wait for the processes, and makes list_disk answer with a
	// task; 0 if absent.
	Protocol int `json:"protocol,omitempty"`
}

// Reply is the agent's answer to a Request; exactly one field is set.
type Reply struct {
	Value     json.RawMessage `json:"value,omitempty"`
	Exception *Exception      `json:"exception,omitempty"`
}

// Exception is an error that the agent reports.
type Exception struct {
	Message string `json:"message"`
}

// Task is the value of a Reply to a method that runs in the background, and of
// get_task while State is "running".
type Task struct {
	ID    string `json:"agent_task_id"`
	State string `json:"state"`
	// Waits says what a task of the embedded agent waits for, if that takes long.
	Waits string `json:"waits_for,omitempty"`
}

// Spec is the apply spec: the jobs and packages of the VM, in the shape that
// create-env sends.
type Spec struct {
	Deployment        string                    `json:"deployment"`
	Name              string                    `json:"name"` // instance group
	Index             int                       `json:"index"`
	ID                string                    `json:"id"`
	AZ                string                    `json:"az"`
	Job               SpecJob                   `json:"job"`
	Packages          map[string]SpecPackage    `json:"packages"`
	Networks          map[string]map[string]any `json:"networks"`
	RenderedTemplates Blob                      `json:"rendered_templates_archive"`
	// ConfigurationHash is the digest of all rendered templates. If it is
	// empty, the agent stores the spec without applying it.
	ConfigurationHash string `json:"configuration_hash"`
	// PersistentDisk is the size of the persistent disk in MiB, which drain scripts get. A
	// Director sends it, create-env does not.
	PersistentDisk int `json:"persistent_disk,omitempty"`
}

// SpecJob lists the jobs of the instance group, in the manifest's order.
type SpecJob struct {
	Name      string         `json:"name"` // instance group
	Templates []SpecTemplate `json:"templates"`
}

// SpecTemplate is one job of a release; Version is its fingerprint.
type SpecTemplate struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	SHA1        string `json:"sha1"`
	BlobstoreID string `json:"blobstore_id"`
}

// SpecPackage is one compiled package in the agent's blobstore.
type SpecPackage struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	SHA1        string `json:"sha1"` // multi-digest
	BlobstoreID string `json:"blobstore_id"`
}

// Blob refers to a blob in the agent's blobstore by its id and multi-digest.
type Blob struct {
	BlobstoreID string `json:"blobstore_id"`
	SHA1        string `json:"sha1"`
}

// Logs is the value of fetch_logs.
type Logs struct {
	Blob
	// BeforeStart has how many bytes of each log are from before the last start of the jobs,
	// by its path below the folder of logs. Only the embedded agent knows it; nil: unknown.
	BeforeStart map[string]int64 `json:"before_start,omitzero"`
}

// State is the value of get_state: the current spec and the running processes.
type State struct {
	Spec
	AgentID   string    `json:"agent_id"`
	JobState  string    `json:"job_state"` // running, starting, failing, stopped, unknown
	VM        VM        `json:"vm"`
	Processes []Process `json:"processes,omitempty"`
	Vitals    any       `json:"vitals,omitempty"` // set only if the request was for "full"
}

// VM identifies the VM by the names that the CPI uses.
type VM struct {
	Name string `json:"name"`
	// Machine is the kind of machine of an embedded VM; empty: a folder, or a real VM.
	Machine string `json:"machine,omitempty"`
	// Notes are sentences about an embedded VM that a person should know; only with
	// "full".
	Notes []string `json:"notes,omitempty"`
}

// Process is one supervised process of a job.
type Process struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Uptime struct {
		Secs int `json:"secs"`
	} `json:"uptime"`
	Mem struct {
		KB      int     `json:"kb"`
		Percent float64 `json:"percent"`
	} `json:"mem"`
	CPU struct {
		Total float64 `json:"total"`
	} `json:"cpu"`
}
