package agent

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"bootstrap/internal/atomicfile"

	multidigest "bootstrap/internal/digest"
	"bootstrap/local/machine"
)

// spec is the apply spec as the agent stores it: the fields and their order are
// those of the real agent, which ignores other fields.
type spec struct {
	Properties struct {
		Logging struct {
			MaxLogFileSize string `json:"max_log_file_size"`
		} `json:"logging"`
	} `json:"properties"`
	Job               specJob                   `json:"job"`
	Packages          map[string]specPackage    `json:"packages"`
	ConfigurationHash string                    `json:"configuration_hash"`
	Networks          map[string]map[string]any `json:"networks"`
	ResourcePool      any                       `json:"resource_pool"`
	Deployment        string                    `json:"deployment"`
	Name              string                    `json:"name"`
	Index             *int                      `json:"index"`
	ID                string                    `json:"id"`
	AZ                string                    `json:"az"`
	PersistentDisk    int                       `json:"persistent_disk"`
	Archive           *specArchive              `json:"rendered_templates_archive"`
}

type specJob struct {
	Name      *string        `json:"name"`
	Release   string         `json:"release"`
	Template  string         `json:"template"`
	Version   string         `json:"version"`
	Templates []specTemplate `json:"templates"`
}

type specTemplate struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type specPackage struct {
	Name             string            `json:"name"`
	Version          string            `json:"version"`
	SHA1             digest            `json:"sha1"`
	BlobstoreID      string            `json:"blobstore_id"`
	SignedURL        string            `json:"signed_url"`
	BlobstoreHeaders map[string]string `json:"blobstore_headers"`
}

type specArchive struct {
	SHA1        *digest `json:"sha1"`
	BlobstoreID string  `json:"blobstore_id"`
}

// UnmarshalJSON leaves an archive without blob and digest empty.
func (a *specArchive) UnmarshalJSON(data []byte) error {
	var raw struct {
		SHA1        string `json:"sha1"`
		BlobstoreID string `json:"blobstore_id"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw.SHA1 == "" && raw.BlobstoreID == "" {
		return nil
	}
	d, err := parseDigest(raw.SHA1)
	if err != nil {
		return err
	}
	*a = specArchive{SHA1: &d, BlobstoreID: raw.BlobstoreID}
	return nil
}

// templates are the jobs to run; there are none if their archive is missing.
func (s *spec) templates() []specTemplate {
	if s.Archive == nil {
		return nil
	}
	return s.Job.Templates
}

// digest is a multi-digest with the error texts of the real agent. Its text is part of
// folder names: for sha1 only the hex digits, for others the algorithm comes first.
type digest struct {
	sum  multidigest.Multi
	text string
}

func parseDigest(text string) (digest, error) {
	var pieces []string
	for piece := range strings.SplitSeq(strings.Trim(text, `"`), ";") {
		if piece != "" {
			pieces = append(pieces, strings.TrimPrefix(piece, "sha1:"))
		}
	}
	if len(pieces) == 0 {
		return digest{}, failf("no digest algorithm found. Supported algorithms: sha1, sha256, sha512")
	}
	text = strings.Join(pieces, ";")
	sum, err := multidigest.Parse(text)
	return digest{sum, text}, err
}

func (d digest) String() string { return d.text }

// verify compares the digest with the content of r.
func (d digest) verify(r io.Reader) error {
	err := d.sum.Verify(r)
	var other *multidigest.Error
	if errors.As(err, &other) {
		return failf("Expected stream to have digest '%s' but was '%s'", other.Want, other.Got)
	}
	return err
}

// UnmarshalJSON reads the digest from a JSON string.
func (d *digest) UnmarshalJSON(data []byte) (err error) {
	*d, err = parseDigest(string(data))
	return err
}

// MarshalJSON writes the digest as a JSON string.
func (d digest) MarshalJSON() ([]byte, error) { return json.Marshal(d.text) }

// specs is the file of the current spec.
type specs struct{ vm machine.VM }

// read returns the current spec; it is empty before the first apply.
func (f specs) read() (*spec, error) {
	var s spec
	if err := readJSON(f.vm.Path("bosh", "spec.json"), &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func (f specs) write(s *spec) error {
	if err := writeJSON(f.vm.Path("bosh", "spec.json"), s, 0o644); err != nil {
		return failf("Persisting apply spec: %w", err)
	}
	for name, value := range map[string]string{"id": s.ID, "az": s.AZ, "name": s.Name, "deployment": s.Deployment} {
		if err := atomicfile.WriteMode(f.vm.Path("instance", name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// address fills in addresses from the settings if the spec lacks them, and refuses
// networks that the VM does not have.
func (s *settings) address(target *spec) error {
	known := s.get().Networks
	bus, err := s.bus()
	if err != nil {
		return err
	}
	for name, fields := range target.Networks {
		if name == "local" && fields["ip"] == "127.0.0.1" {
			continue
		}
		found, ok := known[name]
		if !ok {
			return failf("Network '%s' is not found in settings", name)
		}
		if n := networkOf(found); n.dhcp() {
			n = n.resolve(bus)
			if fields == nil {
				fields = map[string]any{}
			}
			fields["ip"], fields["netmask"], fields["gateway"] = n.IP, n.Netmask, n.Gateway
			target.Networks[name] = fields
		}
	}
	return nil
}
