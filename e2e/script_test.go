//go:build unix

package e2e

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"bootstrap/agent"
	"bootstrap/internal/postgrestest"
	"bootstrap/local/cgroup"
	"bootstrap/local/namespace"
	"bootstrap/local/vmtest"
	"bootstrap/local/volume"
)

// TestScript runs every script of testdata/script: deploys for real, with the
// embedded CPI and agent.
func TestScript(t *testing.T) {
	t.Parallel()
	bin, cache := program(t)
	var parent atomic.Value
	t.Cleanup(func() { // testscript fails for unused scripts only if all scripts ran
		if parent, ok := parent.Load().(string); ok {
			_ = os.Remove(parent)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "postgres":
				return postgrestest.Installed(), nil
			case "namespace":
				return namespaces(), nil
			case "hosts":
				return canHost(), nil
			case "stemcell":
				return os.Getenv("BOOTSTRAP_STEMCELL") != "", nil
			case "cgroup":
				home, err := cgroup.Find()
				if err == nil {
					_, err = home.Can(cgroup.Limits{Memory: 1, CPU: 1, PIDs: 1})
				}
				return err == nil, nil
			case "limited":
				return namespaces() && volume.Can() == nil, nil
			case "users":
				_, err := namespace.FindUsers()
				return err == nil && namespaces(), nil
			case "browser":
				return findBrowser() != "", nil
			case "folder":
				return machine() == agent.MachineFolder, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			parent.Store(filepath.Dir(env.WorkDir))
			return setup(env, bin, cache)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"expand":    expand,
			"page":      page,
			"served":    served,
			"agents":    agents,
			"processes": processes,
			"killall":   killAll,
			"serve":     serve,
			"jumpbox":   jumpbox,
			"many":      many,
			"ports":     ports,
			"postgres":  postgres,
			"store":     store,
			"terminal":  terminal,
			"narrow":    narrow,
			"tamper":    tamper,
			"events":    events,
			"unpack":    unpack,
			"pipelines": pipelines,
			"browse":    browse,
			"host":      host,
		},
	})
}

// setup gives a script its own ports, keys and copies of the quickstart's
// releases.
func setup(env *testscript.Env, bin, cache string) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".bosh"), 0o700); err != nil {
		return err
	}
	if err := os.Symlink(cache, filepath.Join(home, ".bosh", "cache")); err != nil {
		return err
	}
	source, err := filepath.Abs("../testdata")
	if err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
	env.Setenv("TESTDATA", source)
	env.Setenv("BOOTSTRAP_STEMCELL", os.Getenv("BOOTSTRAP_STEMCELL"))
	if err := checkJSON(env); err != nil {
		return err
	}
	ownDatabase(env)
	env.Setenv("MACHINE", machine())
	env.Setenv("PASSWORD", "mbus-password-of-this-script")
	for _, name := range []string{"MBUS_PORT", "PAGE_PORT", "SSH_PORT", "HTTP_PORT"} {
		port, err := freePort()
		if err != nil {
			return err
		}
		env.Setenv(name, strconv.Itoa(port))
	}
	if err := keys(env); err != nil {
		return err
	}
	env.Values[storeDown] = &downAfter{}
	env.Values[machinesOf] = &machines{first: map[string]*exec.Cmd{}}
	env.Defer(func() { endAll(func() []process { return ofVMs(env.WorkDir) }) })
	return nil
}

// machine returns the kind of machine of VMs in tests that do not choose one: the
// cheapest kind, or the one that TEST_MACHINE names.
func machine() string { return cmp.Or(os.Getenv("TEST_MACHINE"), agent.MachineFolder) }

// namespaces reports whether tests may choose VMs of namespaces.
var namespaces = sync.OnceValue(func() bool {
	dir, err := built()
	return err == nil && os.Getenv("TEST_MACHINE") != agent.MachineFolder &&
		namespace.Try(context.Background(), filepath.Join(dir, "bootstrap")) == nil
})

// freePort finds a port below those that the system uses for connections, because the
// system may use one of these again before the script listens there.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + mathrand.IntN(20000)
		// Another script may have got this port without listening there yet.
		if _, taken := handedOut.LoadOrStore(port, true); taken {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// ports N NAME... gives the script free ports in NAME1 to NAMEN, for each name.
func ports(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ports N NAME...")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for _, name := range args[1:] {
		for i := range n {
			port, err := freePort()
			ts.Check(err)
			ts.Setenv(name+strconv.Itoa(i+1), strconv.Itoa(port))
		}
	}
}

// handedOut contains the ports that were given to scripts of this process.
var handedOut sync.Map

// keys creates a CA, a certificate of the agent and an SSH key, in the form for a
// manifest: on one line, between double quotes.
func keys(env *testscript.Env) error {
	ca, caKey, err := certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	if err != nil {
		return err
	}
	leaf, leafKey, err := certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"vm.internal"}}, ca, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		return err
	}
	quote := func(kind string, der []byte) string {
		return strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})), "\n", `\n`)
	}
	env.Setenv("CA", quote("CERTIFICATE", ca.Raw))
	env.Setenv("CERTIFICATE", quote("CERTIFICATE", leaf.Raw))
	env.Setenv("PRIVATE_KEY", quote("EC PRIVATE KEY", keyDER))
	public, err := newSSHKey(filepath.Join(env.WorkDir, "ssh.key"))
	env.Setenv("SSH_PUBLIC", public)
	return err
}

// newSSHKey writes a private key, and returns its public key.
func newSSHKey(path string) (string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))), os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
}

func certificate(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// expand SOURCE TARGET [NAME=VALUE...] copies a file and fills in $NAME and
// ${NAME} from the script's environment and the arguments.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: expand SOURCE TARGET [NAME=VALUE...]")
	}
	given := map[string]string{}
	for _, kv := range args[2:] {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			ts.Fatalf("expand: %q is not NAME=VALUE", kv)
		}
		given[name] = value
	}
	text := os.Expand(ts.ReadFile(args[0]), func(name string) string {
		if v, ok := given[name]; ok {
			return v
		}
		return ts.Getenv(name)
	})
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// page URL prints the page, so that the script can check it with stdout; with ! nothing
// may be served there.
func page(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: page URL")
	}
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(args[0])
	if neg {
		if err == nil {
			resp.Body.Close()
			ts.Fatalf("something is served at %s", args[0])
		}
		return
	}
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
}

// served URL prints the serial number of the certificate that the agent at the
// URL serves, and the HTTP status with which it accepts or refuses the URL's
// user and password.
func served(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: served URL")
	}
	leaf, status, err := askAgent(args[0])
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "serial %X\nstatus %d\n", leaf.SerialNumber, status)
}

// askAgent pings the agent at a URL with user and password, whatever certificate
// it serves, and returns the certificate and the HTTP status.
func askAgent(url string) (*x509.Certificate, int, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	resp, err := client.Post(url+"/agent", "application/json", strings.NewReader(`{"method":"ping","arguments":[],"reply_to":""}`))
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	return resp.TLS.PeerCertificates[0], resp.StatusCode, nil
}

// processes PATTERN prints the command lines of the VMs' processes; with ! no process may
// match.
func processes(ts *testscript.TestScript, neg bool, _ []string) {
	list := slices.Concat(ofVMs(ts.MkAbs(".")), inVMs(homeOf(ts)))
	if neg && len(list) > 0 {
		ts.Fatalf("%d processes are left: %v", len(list), list)
	}
	for _, p := range list {
		fmt.Fprintln(ts.Stdout(), p.command)
	}
}

// killall kills every process of the VMs at once, as a power failure would.
func killAll(ts *testscript.TestScript, _ bool, args []string) {
	endAll(func() []process { return slices.Concat(ofVMs(ts.MkAbs(".")), inVMs(homeOf(ts))) })
}

// homeOf is the end of the path of the script's home, which no other script has.
func homeOf(ts *testscript.TestScript) string {
	dir := ts.MkAbs(".")
	return filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir), "home")
}

// serve FOLDER serves files over HTTP at $HTTP_PORT until the script ends; serve FOLDER CA
// serves them over HTTPS, and writes the certificate of the CA into that file.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 && len(args) != 2 {
		ts.Fatalf("usage: serve FOLDER [CA]")
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+ts.Getenv("HTTP_PORT"))
	ts.Check(err)
	server := httptest.NewUnstartedServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Check(server.Listener.Close())
	server.Listener = l
	ts.Defer(server.Close)
	if len(args) == 1 {
		server.Start()
		return
	}
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), ca, 0o600))
}

type process struct {
	pid     int
	command string
}

// ofVMs lists the processes of VMs below dir, which is in their environment.
func ofVMs(dir string) []process { return allOf("VCAP_ROOT=" + dir + "/") }

// inVMs lists the processes of VMs that are namespaces, and that belong to a home folder
// whose path ends with end.
func inVMs(end string) (list []process) {
	for _, p := range vmtest.Processes(end + "/.bosh/local") {
		list = append(list, process{p.PID, p.Command + " in vms/" + p.VM})
	}
	return list
}

// allOf lists the processes with that text in their command line or environment.
func allOf(text string) []process {
	// On Linux and macOS, ps shows the environment of the user's own processes.
	out, err := exec.Command("ps", "axeww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil
	}
	var list []process
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, text) {
			continue
		}
		pid, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(pid)
		if err == nil {
			list = append(list, process{n, strings.TrimSpace(command)})
		}
	}
	return list
}

// endAll kills the processes that find lists, repeatedly: a process may start another one
// before it ends.
func endAll(find func() []process) {
	for range 20 {
		list := find()
		if len(list) == 0 {
			return
		}
		for _, p := range list {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	}
}

// events FILE checks the output of a command with --json: it consists of objects
// with a kind, each stage that begins ends, and the result is the last.
func events(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: events FILE")
	}
	open := map[int]string{}
	last := ""
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var e struct {
			Kind, Name string
			Stage      int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Kind == "" || last == "result" {
			ts.Fatalf("%v, after a %s: %s", err, last, line)
		}
		last = e.Kind
		switch e.Kind {
		case "begin":
			open[e.Stage] = e.Name
		case "end":
			if name, ok := open[e.Stage]; !ok || name != e.Name {
				ts.Fatalf("an end without a beginning: %s", line)
			}
			delete(open, e.Stage)
		}
	}
	if kept, err := os.ReadDir(ts.Getenv("BOOTSTRAP_TRACE_JSON")); err != nil || len(kept) == 0 {
		ts.Fatalf("no program kept the JSON that it printed, which must be compared with the schema: %v", err)
	}
	if last != "result" || len(open) > 0 {
		ts.Fatalf("the last is a %s, and never ended: %v", last, open)
	}
}
