package cpi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bootstrap/agent"
)

// config is the rendered config/cpi.json of the job local_cpi.
type config struct {
	Root       string `json:"root"`
	APIVersion int    `json:"api_version"`
	Agent      struct {
		MBus      string          `json:"mbus"`
		NTP       []string        `json:"ntp"`
		Blobstore agent.Blobstore `json:"blobstore"`
	} `json:"agent"`
	Registry registryConfig `json:"registry"`
	Ports    []string       `json:"ports"`
	SSH      sshConfig      `json:"ssh"`
}

type registryConfig struct {
	Endpoint string `json:"endpoint"`
	Host     string `json:"host"`
	Port     port   `json:"port"`
	Username string `json:"username"`
	Password string `json:"password"`
}

type sshConfig struct {
	Port           port     `json:"port"`
	Address        string   `json:"address"`
	User           string   `json:"user"`
	Password       string   `json:"password"`
	AuthorizedKeys []string `json:"authorized_keys"`
	Jumpbox        bool     `json:"jumpbox"` // log users in to connect them with addresses that the VM reaches
}

// port is a port number, which may be a string in JSON.
type port int

func (p *port) UnmarshalJSON(text []byte) error {
	number := strings.Trim(string(text), `"`)
	if number == "" || number == "null" {
		*p = 0
		return nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return fmt.Errorf("want a port, 0 to 65535, got %s", text)
	}
	*p = port(n)
	return nil
}

func readConfig(path string) (config, error) {
	var cfg config
	text, err := os.ReadFile(path)
	if err != nil {
		return cfg, fmt.Errorf("cannot read the CPI's configuration: %w", err)
	}
	if err := json.Unmarshal(text, &cfg); err != nil {
		return cfg, fmt.Errorf("cannot read the CPI's configuration %s: %w", path, err)
	}
	switch cfg.APIVersion {
	case 0:
		cfg.APIVersion = 2
	case 1, 2, 3:
	default:
		return cfg, fmt.Errorf("cannot use CPI API version %d: local_cpi.api_version must be 1, 2 or 3", cfg.APIVersion)
	}
	cfg.Root, err = rootDir(cfg.Root)
	return cfg, err
}

// rootDir returns local_cpi.root as an absolute path.
func rootDir(dir string) (string, error) {
	rest, home := strings.CutPrefix(dir, "~")
	switch {
	case dir == "":
		home, rest = true, "/.bosh/local"
	case home && rest != "" && rest[0] != '/':
		return "", fmt.Errorf("cannot use local_cpi.root %s: only ~/ is supported, no other user's home", dir)
	}
	if !home {
		if !filepath.IsAbs(dir) {
			return "", fmt.Errorf("cannot use local_cpi.root %s: it must be absolute", dir)
		}
		return filepath.Clean(dir), nil
	}
	user := os.Getenv("HOME")
	if user == "" {
		return "", errors.New("cannot find ~/.bosh/local: HOME is not set; set local_cpi.root")
	}
	return filepath.Abs(filepath.Join(user, rest))
}

// url returns the registry's base URL with credentials; nil: no registry is configured.
func (r registryConfig) url() (*url.URL, error) {
	base := &url.URL{Scheme: "http", Host: net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))}
	switch {
	case r.Endpoint != "":
		var err error
		if base, err = url.Parse(r.Endpoint); err != nil || base.Host == "" {
			// The error would contain the URL, which may have a password.
			return nil, errors.New("cannot use registry.endpoint: it is not a URL with a host")
		}
	case r.Host == "":
		return nil, nil
	case r.Port == 0:
		return nil, errors.New("cannot use the registry: registry.port is not set")
	}
	if r.Username != "" {
		base.User = url.UserPassword(r.Username, r.Password)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	return base, nil
}

// server returns the SSH server of a VM at the address; nil: none is configured.
func (s sshConfig) server(address string) *agent.BootSSH {
	if s.Port == 0 {
		return nil
	}
	if s.Address != "" {
		address = s.Address
	}
	user := s.User
	if user == "" {
		user = "vcap"
	}
	return &agent.BootSSH{
		Address:        net.JoinHostPort(address, strconv.Itoa(int(s.Port))),
		User:           user,
		Password:       s.Password,
		AuthorizedKeys: s.AuthorizedKeys,
		Jumpbox:        s.Jumpbox,
	}
}
