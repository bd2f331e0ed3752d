// Package cpi calls a CPI: it has the wire types of the protocol and a client
// that starts one process per call. The embedded CPI in local/cpi serves the
// same types.
package cpi

import "encoding/json"

// Request is one call, written as JSON to the CPI's standard input.
type Request struct {
	Method     string  `json:"method"`
	Arguments  []any   `json:"arguments"` // never null
	Context    Context `json:"context"`
	APIVersion int     `json:"api_version,omitempty"`
}

// Context tells the CPI who calls it. For API v2, it also contains the API version of the
// stemcell.
type Context struct {
	DirectorUUID string     `json:"director_uuid"`
	VM           *ContextVM `json:"vm,omitempty"`
}

// ContextVM carries the API version of the stemcell in use.
type ContextVM struct {
	Stemcell struct {
		APIVersion int `json:"api_version"`
	} `json:"stemcell"`
}

// Response is the CPI's whole standard output.
type Response struct {
	Result json.RawMessage `json:"result"`
	Error  *ResponseError  `json:"error"`
	Log    string          `json:"log"`
}

// ResponseError is an error that the CPI reports.
type ResponseError struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	OKToRetry bool   `json:"ok_to_retry"`
}

// Info is the result of the method info.
type Info struct {
	StemcellFormats []string `json:"stemcell_formats"`
	APIVersion      int      `json:"api_version"` // 1 if the CPI does not say; at most MaxAPIVersion
	// Extensions are what the CPI can do beyond the methods of BOSH. Only the embedded
	// CPI has any.
	Extensions []string `json:"extensions,omitempty"`
}

// MaxAPIVersion is the highest version of the CPI API that a Client speaks: with 3,
// create_stemcell gets tags (docs-bosh, CPI API v3).
const MaxAPIVersion = 3

// HasStemcellMethod is the extension that reports whether a stemcell exists.
const HasStemcellMethod = "has_stemcell"

// DiskFromSnapshot is the extension of a CPI whose create_disk makes a disk with the data of
// a snapshot, which cloud_properties name with the key SnapshotProperty.
const (
	DiskFromSnapshot = "create_disk.snapshot"
	SnapshotProperty = "snapshot"
)

// The error types that every CPI may report; a CPIError is about the request,
// not about the cloud.
const (
	TypeCPIError         = "Bosh::Clouds::CpiError"
	TypeCloudError       = "Bosh::Clouds::CloudError"
	TypeVMNotFound       = "Bosh::Clouds::VMNotFound"
	TypeDiskNotFound     = "Bosh::Clouds::DiskNotFound"
	TypeStemcellNotFound = "Bosh::Clouds::StemcellNotFound"
	TypeNotImplemented   = "Bosh::Clouds::NotImplemented"
	TypeNotSupported     = "Bosh::Clouds::NotSupported"
	// TypeInsufficientPermissions is about the method and not about the object: the
	// account of the CPI may not call it.
	TypeInsufficientPermissions = "Bosh::Clouds::InsufficientPermissions"
)
