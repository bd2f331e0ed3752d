package cpi

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/listener"
	"bootstrap/internal/printable"
	"bootstrap/internal/wait"
	"bootstrap/local/namespace"
	"bootstrap/local/network"
)

// containerTools contains programs for the agent of a stemcell. The PATH of the agent begins
// with their folder.
//
//go:embed tools
var containerTools embed.FS

// unitTools are programs for VMs whose stemcell has units of systemd for agent and monit,
// as those since ubuntu-noble: one that starts them, and the systemctl that agent and jobs
// find.
//
//go:embed units
var unitTools embed.FS

// hasUnits reports whether systemd starts the agent of a stemcell, and not runit.
func hasUnits(image string) bool {
	return !regular(image, "etc/sv/agent/run") && unitFile(image, "bosh-agent.service")
}

// bpmProgram is the program of the job bpm of bpm-release, which bpmScript replaces by
// this program.
const (
	bpmProgram = "var/vcap/packages/bpm/bin/bpm"
	bpmScript  = "#!/bin/sh\n# Written by the embedded CPI, in place of the bpm of bpm-release.\n" +
		"VCAP_ROOT=/var/vcap exec " + namespace.GuestProgram + " plugin bpm \"$@\"\n"
)

// sshService starts the stemcell's SSH server, which cannot log in users or listen at
// port 22 in this VM. sshScript replaces it: it only makes the host key that the agent
// reports.
const (
	sshService = "etc/sv/ssh/run"
	sshScript  = `#!/bin/bash
# Written by the embedded CPI: bootstrap ssh reaches the VM without this server.
key=/etc/ssh/ssh_host_rsa_key
[ -s $key ] || { rm -f $key; ssh-keygen -q -t rsa -f $key -C '' -N '' </dev/null; }
exec sleep infinity
`
)

// monitAccess is a script that the services of agent and monit include. The original
// fails if the machine has the cgroup net_cls, which the VM cannot change.
const (
	monitAccess       = "var/vcap/bosh/etc/monit-access-helper.sh"
	monitAccessScript = "# Written by the embedded CPI: nothing guards the port of monit in this VM.\npermit_monit_access() { :; }\n"
)

// monitAccessProgram is the program of the agent with which a job of a stemcell since
// ubuntu-noble 1.267 asks for access to the port of monit. The original fails without the
// agent's chain of nftables, and with it the job's start script.
const (
	monitAccessProgram = "var/vcap/bosh/etc/bosh-enable-monit-access"
	monitAccessAlways  = "#!/bin/bash\n# Written by the embedded CPI: nothing guards the port of monit in this VM.\nexit 0\n"
)

// monitAddress is the address of monit in every stemcell.
const monitAddress = "127.0.0.1:2822"

// knock is the limit for one attempt to reach an agent, and the pause between two.
const (
	knockTime  = time.Second
	knockPause = 5 * time.Millisecond
)

// bootStemcell sets up a VM to run the services of a stemcell.
func (c *call) bootStemcell(ctx context.Context, machine vm, spec *namespace.Spec) (await func(ended <-chan error) error, err error) {
	mbus, err := mbusOf(spec.Dir)
	if err != nil {
		return nil, err
	}
	systemd, err := c.bootsSystemd(machine)
	if err != nil {
		return nil, err
	}
	if systemd {
		c.bootWithSystemd(machine, spec)
	}
	if err := c.fromStemcell(machine, spec); err != nil {
		return nil, err
	}
	dial := (&net.Dialer{Timeout: knockTime}).DialContext
	if machine.Own != nil {
		dial = func(ctx context.Context, kind, address string) (net.Conn, error) {
			return network.Dial(ctx, spec.Dir, kind, address)
		}
		mbus, err = inside(mbus, machine.Own)
	} else {
		err = portsFree(ctx, mbus, spec.Image)
	}
	if err != nil {
		return nil, err
	}
	return func(ended <-chan error) error {
		if systemd {
			if err := c.awaitBoot(ctx, machine.CID, ended); err != nil {
				return err
			}
		}
		return awaitPort(ctx, spec.Dir, mbus, dial, ended)
	}, nil
}

// portsFree returns an error if the agent or monit of a VM could not listen at the ports
// of this machine.
func portsFree(ctx context.Context, mbus, image string) error {
	ports := map[string]string{mbus: "its agent"}
	if regular(image, monitProgram) {
		ports[monitAddress] = "the stemcell's monit"
	}
	for _, address := range slices.Sorted(maps.Keys(ports)) {
		if err := free(ctx, address); err != nil {
			return fmt.Errorf("%s would listen at %s: %w; this VM uses the ports of this machine: give it an address that this machine does not have", ports[address], address, err)
		}
	}
	return nil
}

// inside replaces "all addresses" by the address of a VM with a network of its own.
func inside(address string, own *network.Spec) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = own.Interfaces[0].Address.Addr().String()
	}
	return net.JoinHostPort(host, port), err
}

// mbusOf returns the host and port of the agent of the VM in dir.
func mbusOf(dir string) (string, error) {
	var given agent.Settings
	if err := readJSON(filepath.Join(dir, settingsFile), &given); err != nil {
		return "", err
	}
	mbus := given.MBus
	if urls := given.Env.Bosh.MBus.URLs; len(urls) > 0 {
		mbus = urls[0]
	}
	target, err := url.Parse(mbus)
	if err != nil || target.Scheme != "https" || target.Port() == "" {
		return "", errors.New("the agent's mbus must be https://USER:PASSWORD@HOST:PORT") // the URL contains a password
	}
	return target.Host, nil
}

// free returns an error if a process listens at the address, and names the process.
func free(ctx context.Context, address string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%v uses the port", listener.At(ctx, address))
	}
	if err == nil {
		err = l.Close()
	}
	return err
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// awaitPort waits until the agent listens, or the VM ends. If the agent does not listen
// after agentStart and has logged no error, it counts as slow, which is not an error.
func awaitPort(ctx context.Context, dir, address string, dial dialFunc, ended <-chan error) error {
	limited, cancel := context.WithTimeoutCause(ctx, agentStart, errStarting)
	defer cancel()
	err := wait.Poll(limited, knockPause, func() (bool, error) {
		select {
		case <-ended:
			return false, fmt.Errorf("it ended at once: %s", lastWords(dir, anyPID))
		default:
		}
		conn, err := dial(limited, "tcp", address)
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
	if errors.Is(err, errStarting) {
		if last := agentError(dir); last != "" {
			return fmt.Errorf("it does not listen at %s after %s; its log says: %s", address, agentStart, last)
		}
		return nil
	}
	return err
}

// Limits for the part of an agent's log that is read, and for a line of it that is shown.
const (
	logEnd    = 64 << 10
	lineLimit = 400
)

// agentError returns the last error in the log of a VM's agent, or in that of its runit
// service; empty: there is none.
func agentError(dir string) string {
	// The VM can write there, so links out of the folder are not followed.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	for _, name := range []string{"layers/upper/var/vcap/bosh/log/current", logFile} {
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := root.Open(name)
		if err != nil {
			continue
		}
		_, _ = f.Seek(max(0, info.Size()-logEnd), io.SeekStart)
		text, _ := io.ReadAll(io.LimitReader(f, logEnd))
		_ = f.Close()
		if i := strings.LastIndex(string(text), " ERROR - "); i >= 0 {
			line, _, _ := strings.Cut(string(text[i+len(" ERROR - "):]), "\n")
			return printable.Text(line[:min(len(line), lineLimit)])
		}
	}
	return ""
}

// fromStemcell sets up a VM with the files of its stemcell.
func (c *call) fromStemcell(machine vm, spec *namespace.Spec) error {
	image := c.root.imageDir(machine.Image)
	if !isFolder(image) {
		return fmt.Errorf("the unpacked image of its stemcell is gone: somebody removed %s", image)
	}
	spec.Image = image
	tools := map[string]embed.FS{"tools": containerTools}
	switch {
	case hasUnits(image):
		spec.Files = append(spec.Files, logFile)
		tools["units"] = unitTools
		spec.Boot = []string{"/" + path.Join(path.Dir(agentProgram), "boot-units")}
	case regular(image, runitProgram):
		spec.Boot = []string{"/" + runitProgram}
	default:
		spec.Boot = []string{"/" + agentProgram, "-P", "ubuntu", "-C", "/" + agentConfig}
	}
	config, err := containerAgent(image)
	if err != nil {
		return err
	}
	spec.Added = append(spec.Added, []namespace.File{
		{Name: agentConfig, Text: config, Mode: 0o644},
		{Name: "etc/hostname", Text: machine.AgentID + "\n", Mode: 0o644},
		{Name: "etc/hosts", Text: "127.0.0.1 localhost " + machine.AgentID + "\n::1 localhost ip6-localhost ip6-loopback\n", Mode: 0o644},
	}...)
	if regular(image, monitAccess) {
		spec.Added = append(spec.Added, namespace.File{Name: monitAccess, Text: monitAccessScript, Mode: 0o644})
	}
	if regular(image, monitAccessProgram) {
		spec.Added = append(spec.Added, namespace.File{Name: monitAccessProgram, Text: monitAccessAlways, Mode: 0o755})
	}
	if regular(image, sshService) {
		spec.Added = append(spec.Added, namespace.File{Name: sshService, Text: sshScript, Mode: 0o755})
	}
	// The program of the job bpm of bpm-release needs runc.
	spec.Added = append(spec.Added, namespace.File{Name: bpmProgram, Text: bpmScript, Mode: 0o755})
	for folder, list := range tools {
		entries, err := list.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			text, err := list.ReadFile(path.Join(folder, entry.Name()))
			if err != nil {
				return err
			}
			spec.Added = append(spec.Added, namespace.File{Name: toolPlace(entry.Name(), spec.Systemd != nil), Text: string(text), Mode: 0o755})
		}
	}
	return nil
}

// toolPlace returns the path of a program that is added to a stemcell. Jobs, which monit
// starts with a PATH of its own, find systemctl where the stemcell has it, unless its systemd
// boots the VM; the other programs are only for the agent.
func toolPlace(name string, systemd bool) string {
	switch {
	case name != "systemctl":
		return path.Join(path.Dir(agentProgram), name)
	case systemd:
		return namespace.ReplacedSystemctl[1:]
	}
	return path.Join("usr/bin", name)
}

// containerAgent returns the agent.json of a stemcell, changed to that of warden
// stemcells: settings are in a file, and disks are folders.
func containerAgent(image string) (string, error) {
	root, err := os.OpenRoot(image)
	if err != nil {
		return "", err
	}
	defer root.Close()
	all := map[string]any{}
	text, err := readAgentConfig(root)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot read the stemcell's /%s: %w", agentConfig, err)
	}
	linux := section(section(all, "Platform"), "Linux")
	for option, value := range map[string]any{
		"UseDefaultTmpDir": true, "UsePreformattedPersistentDisk": true, "BindMountPersistentDisk": true, "SkipDiskSetup": true,
		"CreatePartitionIfNoEphemeralDisk": false, "UseMonitIptablesFirewall": true, "DevicePathResolutionType": "", "ServiceManager": "",
	} {
		linux[option] = value
	}
	if hasUnits(image) {
		linux["ServiceManager"] = "systemd"
	}
	all["Infrastructure"] = map[string]any{"Settings": map[string]any{
		"Sources": []any{map[string]any{"Type": "File", "SettingsPath": path.Join(namespace.Guest, settingsFile)}},
	}}
	text, err = json.MarshalIndent(all, "", "  ")
	return string(text) + "\n", err
}

// mostAgentConfig is the largest accepted size of an agent.json; real ones have less than
// 2 KiB.
const mostAgentConfig = 64 << 10

// readAgentConfig reads the agent.json of a stemcell.
func readAgentConfig(image *os.Root) ([]byte, error) {
	f, err := image.Open(agentConfig)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() > mostAgentConfig:
		return nil, fmt.Errorf("it has %d bytes, and more than %d are not read", info.Size(), mostAgentConfig)
	}
	return io.ReadAll(io.LimitReader(f, mostAgentConfig))
}

// section returns the object at a key. If it is missing, it is added.
func section(of map[string]any, key string) map[string]any {
	value, ok := of[key].(map[string]any)
	if !ok {
		value = map[string]any{}
		of[key] = value
	}
	return value
}

// addNameservers adds the name servers of the VM's network to the settings, if the
// manifest names none: the agent writes them into resolv.conf.
func addNameservers(given networks, own *network.Spec) {
	for _, one := range given {
		if servers, ok := one["dns"].([]any); ok && len(servers) > 0 {
			return
		}
	}
	for _, one := range given {
		one["dns"] = nameservers(own)
	}
}

// nameservers returns the name servers of a VM's network; nil: those of this machine are
// used.
func nameservers(own *network.Spec) []string {
	servers := []string{}
	if own != nil {
		for _, server := range own.DNS {
			servers = append(servers, server.String())
		}
		return servers
	}
	text, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, fields[1])
		}
	}
	return servers
}
