package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bootstrap/internal/postgrestest"
	"bootstrap/state/team/teamtest"
)

// Hosts are machines for a script: each has process ids, mounts, a network and a HOME of
// its own, and all have the same name. They share a cloud, which is made in the same way,
// and which contains the VMs and the store of the team. Each host reaches the cloud over
// its own cable.

// cloudAddress is the address of the cloud, of its VMs, and of its store.
const cloudAddress = "10.99.0.1"

// The ports of the cloud for calls of the CPI, and for PostgreSQL.
const (
	cpiPort      = "7000"
	databasePort = "5432"
)

// machines are the machines of a script.
type machines struct {
	dir   string // folder of the script
	first map[string]*exec.Cmd
	names []string
}

// canHost reports whether hosts can be made here.
var canHost = sync.OnceValue(func() bool {
	for _, program := range []string{"bash", "ip", "mount", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	if os.Geteuid() != 0 {
		return false
	}
	cmd := exec.Command("bash", "-c", "mount --make-rprivate / && mount -t proc proc /proc && echo host >/proc/sys/kernel/hostname && ip link add one type veth peer name other")
	cmd.SysProcAttr = apart()
	return cmd.Run() == nil
})

// apart makes a process the first process of a host.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
}

// machinesOf is the key of the script's machines.
type machinesKey struct{}

var machinesOf = machinesKey{}

// host cloud {s3 | postgres} NAME... makes a cloud, and one host for each NAME. The HOME
// of a host is the folder NAME, and the program NAME runs other programs on the host. It
// sets STATE to the address of the store. "host kill NAME" is a power failure, and "host
// start NAME" makes the host again after it; "host cut NAME" unplugs its cable, and "host
// join NAME" plugs it in again.
func host(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: host {cloud STORE NAME... | start NAME | kill NAME | cut NAME | join NAME}")
	}
	all := ts.Value(machinesOf).(*machines)
	name := args[1]
	switch args[0] {
	case "cloud":
		all.dir, all.names = ts.MkAbs("."), args[2:]
		ts.Defer(all.end)
		ts.Check(all.startCloud(ts, args[1]))
		for _, name := range all.names {
			ts.Check(all.start(name))
		}
	case "start":
		ts.Check(all.start(name))
	case "kill":
		all.kill(name)
	case "cut":
		ts.Check(run("nsenter", "-t", all.pid("cloud"), "-n", "ip", "link", "set", "to-"+name, "down"))
	case "join":
		ts.Check(run("nsenter", "-t", all.pid("cloud"), "-n", "ip", "link", "set", "to-"+name, "up"))
	default:
		ts.Fatalf("host: there is no %s", args[0])
	}
}

func (m *machines) pid(name string) string {
	if cmd := m.first[name]; cmd != nil {
		return fmt.Sprint(cmd.Process.Pid)
	}
	return "0"
}

func (m *machines) end() {
	for name := range m.first {
		m.kill(name)
	}
}

// kill ends a host: with its first process all others do.
func (m *machines) kill(name string) {
	if cmd := m.first[name]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(m.first, name)
	}
}

// begin starts the first process of a host, which runs a script and ends with this
// test. It returns when the script prints "ready".
func (m *machines) begin(name, script string, env ...string) error {
	cmd := exec.Command("bash", "-c", "set -eu\nmount --make-rprivate /\nmount -t proc proc /proc\necho ci >/proc/sys/kernel/hostname\nip link set lo up\n"+script+"\nread -r || true")
	cmd.SysProcAttr, cmd.Dir = apart(), m.dir
	cmd.Env = append(os.Environ(), env...)
	if _, err := cmd.StdinPipe(); err != nil { // open until this process ends
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(m.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	m.first[name] = cmd
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if lines.Text() == "ready" {
			return nil
		}
	}
	m.kill(name)
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%s does not start: %s", name, text)
}

// start makes a host with a cable to the cloud. A host does not see the HOME of another
// one.
func (m *machines) start(name string) error {
	number := slices.Index(m.names, name) + 1
	if err := os.MkdirAll(filepath.Join(m.dir, name), 0o700); err != nil {
		return err
	}
	var script strings.Builder
	for _, other := range m.names {
		if other != name {
			fmt.Fprintf(&script, "mkdir -p %[1]s\nmount -t tmpfs none %[1]s\n", quoted(filepath.Join(m.dir, other)))
		}
	}
	script.WriteString("echo ready")
	if err := m.begin(name, script.String()); err != nil {
		return err
	}
	// The cable of a killed host disappears soon.
	cable := fmt.Sprintf(`
ip link del to-%[1]s 2>/dev/null || true
ip link add to-%[1]s type veth peer name eth0 netns %[2]s
ip addr add 10.99.%[3]d.1/24 dev to-%[1]s
ip link set to-%[1]s up`, name, m.pid(name), number)
	inside := fmt.Sprintf(`
ip addr add 10.99.%[1]d.2/24 dev eth0
ip link set eth0 up
ip route add default via 10.99.%[1]d.1`, number)
	if err := run("nsenter", "-t", m.pid("cloud"), "-n", "bash", "-ec", cable); err != nil {
		return err
	}
	if err := run("nsenter", "-t", m.pid(name), "-n", "bash", "-ec", inside); err != nil {
		return err
	}
	enter := fmt.Sprintf("#!/bin/bash\nexec nsenter -t %s -n -p -m -u --wd=\"$PWD\" env HOME=%s SSL_CERT_FILE=%s \"$@\"\n",
		m.pid(name), quoted(filepath.Join(m.dir, name)), quoted(filepath.Join(m.dir, "ca.pem")))
	return os.WriteFile(filepath.Join(m.dir, "bin", name), []byte(enter), 0o755)
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return err
}

func quoted(path string) string { return "'" + path + "'" }

// The variables that make this test's program a cloud.
const (
	cloudOf    = "BOOTSTRAP_TEST_CLOUD"        // the folder of the script
	cloudStore = "BOOTSTRAP_TEST_CLOUD_SOCKET" // socket of PostgreSQL; empty: an S3 server
)

// startCloud makes the cloud, the CPI release that calls it, and the keys of both.
func (m *machines) startCloud(ts *testscript.TestScript, store string) error {
	var socket, state string
	switch store {
	case "s3":
		if err := teamtest.Build(context.Background()); err != nil {
			return err
		}
		ts.Setenv("AWS_ACCESS_KEY_ID", teamtest.KeyID)
		ts.Setenv("AWS_SECRET_ACCESS_KEY", teamtest.Secret)
		state = "s3://" + teamtest.Bucket + "/env/prod?endpoint=https://" + cloudAddress
	case "postgres":
		server, err := postgrestest.New()
		if err != nil {
			return err
		}
		ts.Defer(server.Close)
		u, err := url.Parse(server.URL())
		if err != nil {
			return err
		}
		socket = filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
		state = "postgres://bootstrap@" + net.JoinHostPort(cloudAddress, databasePort) + "/postgres?environment=prod&sslmode=disable"
		ts.Setenv("DATABASE", server.URL())
	default:
		return fmt.Errorf("there is no store %s", store)
	}
	ts.Setenv("STATE", state)
	ts.Setenv("BOOTSTRAP_STATE_KEY", storesKey)
	ts.Setenv("PATH", filepath.Join(m.dir, "bin")+string(os.PathListSeparator)+ts.Getenv("PATH"))
	for _, dir := range []string{"bin", "cloud", "s3"} {
		if err := os.MkdirAll(filepath.Join(m.dir, dir), 0o700); err != nil {
			return err
		}
	}
	if err := m.keys(ts); err != nil {
		return err
	}
	if err := m.remoteCPI(); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	script := fmt.Sprintf("ip addr add %s/32 dev lo\n%s -test.run='^TestCloudOfHosts$' </dev/null &\n", cloudAddress, quoted(os.Args[0]))
	return m.begin("cloud", script, cloudOf+"="+m.dir, cloudStore+"="+socket, "HOME="+filepath.Join(m.dir, "cloud"), "PATH="+ts.Getenv("PATH"),
		"XDG_CACHE_HOME="+cache)
}

// keys makes the keys of the agent and of the store's server.
func (m *machines) keys(ts *testscript.TestScript) error {
	ca, caKey, err := certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	if err != nil {
		return err
	}
	leaf, key, err := certificate(&x509.Certificate{Subject: pkix.Name{CommonName: cloudAddress}, IPAddresses: []net.IP{net.ParseIP(cloudAddress)}}, ca, caKey)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"CA": pemOf(ca), "CERTIFICATE": pemOf(leaf), "PRIVATE_KEY": pemOfKey(key)} {
		ts.Setenv(name, strings.ReplaceAll(string(text), "\n", `\n`))
		if err := os.WriteFile(filepath.Join(m.dir, strings.ToLower(name)+".pem"), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func pemOfKey(key *ecdsa.PrivateKey) []byte {
	der, _ := x509.MarshalECPrivateKey(key) // cannot fail: the curve is known
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// remoteCPI writes a release with the CPI cloud_cpi. Its program sends its configuration
// and its request to the cloud, each on one line, and prints the answer. It has the
// properties of the embedded CPI, but another name, because the VMs of the embedded CPI
// are on the same machine.
func (m *machines) remoteCPI() error {
	to := filepath.Join(m.dir, "cpi-release")
	if err := os.CopyFS(to, os.DirFS("../local/cpi/release")); err != nil {
		return err
	}
	job := filepath.Join(to, "jobs", "cloud_cpi")
	if err := os.Rename(filepath.Join(to, "jobs", "local_cpi"), job); err != nil {
		return err
	}
	spec, err := os.ReadFile(filepath.Join(job, "spec"))
	if err != nil {
		return err
	}
	named := strings.Replace(string(spec), "name: local_cpi\n", "name: cloud_cpi\n", 1)
	if err := os.WriteFile(filepath.Join(job, "spec"), []byte(named), 0o600); err != nil {
		return err
	}
	const program = `#!/bin/bash
set -eu
config=$(<"$BOSH_JOBS_DIR/cloud_cpi/config/cpi.json")
request=$(</dev/stdin)
exec 3<>/dev/tcp/` + cloudAddress + `/` + cpiPort + `
printf '%s\n%s\n' "${config//$'\n'/}" "${request//$'\n'/}" >&3
exec cat <&3
`
	return os.WriteFile(filepath.Join(job, "templates", "cpi.erb"), []byte(program), 0o600)
}

// TestCloudOfHosts is no test: it is the cloud of the hosts of a script.
func TestCloudOfHosts(t *testing.T) {
	dir := os.Getenv(cloudOf)
	if dir == "" {
		t.Skip("this is a part of TestScript")
	}
	listen := func(port string) net.Listener {
		l, err := net.Listen("tcp", net.JoinHostPort(cloudAddress, port))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	go accept(listen(cpiPort), func(c net.Conn) error { return callCPI(c, filepath.Join(dir, "cloud", "config.json")) })
	if socket := os.Getenv(cloudStore); socket != "" {
		go accept(listen(databasePort), func(c net.Conn) error { return pass(c, socket) })
	} else {
		go serveS3(t, listen("443"), dir)
	}
	fmt.Println("ready")
	select {} // the machine ends it
}

// accept calls do for each connection.
func accept(l net.Listener, do func(net.Conn) error) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if err := do(c); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	}
}

// callCPI runs a call of the CPI to its end, even if the caller disappears.
func callCPI(c net.Conn, path string) error {
	in := bufio.NewReader(c)
	config, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	request, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "config")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(config); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	cmd := exec.Command("bootstrap", "plugin", "cpi", "--config", f.Name())
	cmd.Stdin, cmd.Stderr = strings.NewReader(request), os.Stderr
	reply, err := cmd.Output()
	if err != nil {
		return err
	}
	_, err = c.Write(reply)
	return err
}

// pass connects c with a socket until one of them ends.
func pass(c net.Conn, socket string) error {
	to, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, c)
		_ = to.Close()
	}()
	if _, err := io.Copy(c, to); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// serveS3 serves a bucket of S3 over HTTPS.
func serveS3(t *testing.T, l net.Listener, dir string) {
	address, stop, err := teamtest.StartS3(t.Context(), filepath.Join(dir, "s3"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer stop()
	to, err := url.Parse(address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	keys, err := tls.LoadX509KeyPair(filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "private_key.pem"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{keys}},
		Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		}},
	}
	_ = server.ServeTLS(l, "", "")
}
