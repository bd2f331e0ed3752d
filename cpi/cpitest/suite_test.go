package cpitest_test

import (
	"encoding/json"
	"os"
	"testing"

	"bootstrap/cpi"
	"bootstrap/cpi/cpitest"
)

// TestRealCPI runs the suite against the CPI whose bin/cpi BOOTSTRAP_CPI names.
// BOOTSTRAP_CPI_PROPERTIES names a JSON file with the Suite's fields, and
// stemcell_api, the API version of the stemcell. The CPI gets this process's
// environment.
func TestRealCPI(t *testing.T) {
	path, properties := os.Getenv("BOOTSTRAP_CPI"), os.Getenv("BOOTSTRAP_CPI_PROPERTIES")
	if path == "" {
		t.Skip("BOOTSTRAP_CPI names no CPI")
	}
	text, err := os.ReadFile(properties)
	if err != nil {
		t.Fatal(err)
	}
	real := struct {
		cpitest.Suite
		StemcellAPI int `json:"stemcell_api"`
	}{}
	if err := json.Unmarshal(text, &real); err != nil {
		t.Fatal(err)
	}
	real.Client = func(t *testing.T) *cpi.Client {
		return cpi.New(cpi.Config{Path: path, Env: os.Environ(), DirectorID: "cpitest", StemcellAPI: real.StemcellAPI})
	}
	real.Run(t)
}
