package state

import (
	"fmt"
	"regexp"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
)

// LegacyName is the file beside the manifest in which the first bosh-init kept
// its state.
const LegacyName = "bosh-deployments.yml"

// deployments is the content of such a file; only the first instance counts.
type deployments struct {
	Instances []struct {
		UUID         string `yaml:"uuid"`
		VM           string `yaml:"vm_cid"`
		Disk         string `yaml:"disk_cid"`
		Stemcell     string `yaml:"stemcell_cid"`
		StemcellName string `yaml:"stemcell_name"`
	} `yaml:"instances"`
}

// symbolKey is a key that is a symbol of Ruby, which wrote such files.
var symbolKey = regexp.MustCompile(`(?m)^([- ]) :`)

// fromDeploymentsYAML makes a state of such a file, as create-env does: the
// size of the disk is unknown, so that the next deploy moves its content to
// one that is known, and so is what the VM's stemcell is, so that it is
// deleted as unused then.
func fromDeploymentsYAML(data []byte) (State, error) {
	var s State
	var file deployments
	if err := yaml.Unmarshal(symbolKey.ReplaceAll(data, []byte("$1 ")), &file); err != nil {
		return s, fmt.Errorf("it cannot be read: %v", err)
	}
	if len(file.Instances) == 0 {
		return s, nil
	}
	old := file.Instances[0]
	s.DirectorID, s.CurrentVMCID = old.UUID, old.VM
	if old.Disk != "" {
		s.CurrentDiskID = uuid.NewString()
		s.Disks = []Disk{{ID: s.CurrentDiskID, CID: old.Disk, CloudProperties: map[string]any{}}}
	}
	if old.Stemcell != "" {
		name := old.StemcellName
		if name == "" {
			name = UnknownStemcell
		}
		s.Stemcells = []Stemcell{{ID: uuid.NewString(), Name: name, CID: old.Stemcell}}
	}
	return s, nil
}

// UnknownStemcell is the name of a stemcell of which only the CID is known.
const UnknownStemcell = "unknown-stemcell"
