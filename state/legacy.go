package state

import (
	"fmt"
	"regexp"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
)

// deployments is the content of a bosh-deployments.yml. Only the first instance is
// read.
type deployments struct {
	Instances []struct {
		UUID         string `yaml:"uuid"`
		VM           string `yaml:"vm_cid"`
		Disk         string `yaml:"disk_cid"`
		Stemcell     string `yaml:"stemcell_cid"`
		StemcellName string `yaml:"stemcell_name"`
	} `yaml:"instances"`
}

// symbolKey is a key of a YAML file that the first bosh-init wrote: a symbol of Ruby.
var symbolKey = regexp.MustCompile(`(?m)^([- ]) :`)

// FromDeployments reads a bosh-deployments.yml, in which the first bosh-init kept its
// state, like create-env does. The size of the disk is unknown: the next deploy moves
// its content to a disk of known size. Name and version of the VM's stemcell are
// unknown, too: the next deploy deletes it as unused.
func FromDeployments(data []byte) (State, error) {
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
