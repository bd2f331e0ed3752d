package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/cpi"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/listener"
	"bootstrap/internal/proxy"
	"bootstrap/tunnel"
)

// clock is the time of another machine, and the time here when it was read.
type clock struct {
	of            string
	date          time.Time // precise to the second
	asked, answer time.Time
}

// off returns by how much at least this machine's clock is behind the other one;
// negative: ahead.
func (c clock) off() time.Duration {
	switch earliest := c.asked.Truncate(time.Second); {
	case c.date.Before(earliest):
		return c.date.Sub(earliest)
	case c.date.After(c.answer):
		return c.date.Sub(c.answer)
	}
	return 0
}

// checkProxies checks the proxies in the environment, and reports which
// connections use them.
func (d *doctor) checkProxies(_ context.Context, v *verdict) {
	var set []string
	for _, name := range proxy.Names() {
		value := proxy.Variable(d.Env.Getenv, name)
		if value == "" {
			continue
		}
		set = append(set, name)
		if name != "NO_PROXY" && !proxy.Valid(value) {
			// The value is left out, because it may have a password.
			v.fail("set it to a URL such as http://host:port, or unset it", "%s in the environment is not the URL of a proxy", name)
		}
	}
	if len(set) == 0 {
		v.say("none is set: all connections are direct")
		return
	}
	v.say("set: %s", strings.Join(set, ", "))
	if v.result == CheckFail {
		return
	}
	d.findAccess()
	choose, err := proxy.HTTP(d.Env.Getenv)
	if err != nil {
		v.fail("set it to a URL such as http://host:port, or unset it", "%v", err)
		return
	}
	if mbus, err := url.Parse(d.how.MBus); err == nil && mbus.Hostname() != "" {
		v.say("the agent at %s is reached %s", mbus.Host, d.way())
		if through, err := choose(&url.URL{Scheme: "https", Host: mbus.Host}); err == nil && through != nil {
			v.warn("add "+mbus.Hostname()+" to NO_PROXY", "NO_PROXY does not cover %s: other tools, such as the CPI, would connect to the VM through %s", mbus.Hostname(), through.Host)
		}
	}
	var hosts []string
	for _, source := range sources(d.manifest()) {
		u, err := url.Parse(source)
		if err != nil || slices.Contains(hosts, u.Host) {
			continue
		}
		hosts = append(hosts, u.Host)
		way := d.way()
		if through, err := choose(u); err == nil && through != nil {
			way = "through " + through.Host
		}
		v.say("downloads from %s go %s", u.Host, way)
	}
}

// way describes connections that do not use an HTTP proxy.
func (d *doctor) way() string {
	switch {
	case len(d.Env.Via) > 0:
		return "through the jumpboxes of --via"
	case d.Env.Getenv("BOSH_ALL_PROXY") != "":
		return "as BOSH_ALL_PROXY says"
	}
	return "directly"
}

// checkRoute logs in to the jumpboxes between this machine and the VM.
func (d *doctor) checkRoute(ctx context.Context, v *verdict) {
	if err := d.Env.OpenRoute(ctx); err != nil {
		d.lost = true
		v.fail("correct --via or BOSH_ALL_PROXY, or find out why the jumpbox refuses the login", "%v", err)
		return
	}
	v.say("the VM is reached %s", d.way())
}

// findAccess finds out the URL and CA of the agent.
func (d *doctor) findAccess() {
	if d.how.MBus != "" {
		return
	}
	cid := ""
	if d.st != nil {
		cid = d.st.CurrentVMCID
	}
	d.how = d.Agents.Recall(cid)
	d.Env.Secret(d.how.MBus)
}

// checkRegistry tries to bind the port of the registry.
func (d *doctor) checkRegistry(ctx context.Context, v *verdict) {
	switch want := d.About.Registry; {
	case d.in == nil:
		v.skip("no manifest was read")
	case want == nil:
		v.skip("the manifest asks for no registry")
	case want.Port == 0:
		v.say("a free port is picked")
	case d.locked:
		v.skip("a run is in progress and may use the port")
	default:
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(want.Port)))
		if err != nil {
			holder := fmt.Sprintf("the program that listens there (find it with lsof -i :%d)", want.Port)
			if by := listener.At(ctx, net.JoinHostPort("127.0.0.1", fmt.Sprint(want.Port))); by.PID != 0 {
				holder = by.String()
			}
			v.fail("stop "+holder+", or set cloud_provider.registry.port to 0 to have a free one picked", "the registry's port cannot be bound: %v", err)
			return
		}
		_ = l.Close()
		v.say("port %d is free", want.Port)
	}
}

// checkAgentPort tries the addresses of this machine that a new VM on it will use.
func (d *doctor) checkAgentPort(ctx context.Context, v *verdict) {
	switch {
	case d.in == nil:
		v.skip("no manifest was read")
	case !d.in.EmbeddedCPI():
		v.skip("the VM is not created on this machine")
	case d.st != nil && d.st.CurrentVMCID != "":
		v.skip("the existing VM uses it")
	case d.locked:
		v.skip("a run is in progress and may have made a VM")
	default:
		ports, err := d.host.NewPorts(ctx)
		if err != nil {
			v.skip("the VM cannot have its network: see machine")
			return
		}
		if err := d.host.CheckPorts(ctx, ""); err != nil {
			failPorts(v, err)
			return
		}
		for _, p := range ports {
			v.say("%s is free for %s", p.Address, p.What)
		}
		if len(ports) == 0 {
			v.skip("the new VM uses no port of this machine")
		}
	}
}

// failPorts fails a check, with a remedy for each port that is not free.
func failPorts(v *verdict, err error) {
	list := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		list = several.Unwrap()
	}
	for _, err := range list {
		if port, ok := errors.AsType[*instance.PortError](err); ok {
			v.fail(port.Remedy, "%v", port.Err)
		} else {
			v.fail("correct cloud_provider.mbus and cloud_provider.properties", "%v", err)
		}
	}
}

// checkSSH reads the key of the tunnel.
func (d *doctor) checkSSH(_ context.Context, v *verdict) {
	if d.in == nil {
		v.skip("no manifest was read")
		return
	}
	want := d.in.Manifest.CPI.SSHTunnel
	if want == nil {
		v.skip("the manifest asks for no SSH tunnel")
		return
	}
	err := tunnel.CheckLogin(d.CPI.TunnelConfig(want))
	switch {
	case err != nil:
		v.fail("correct cloud_provider.ssh_tunnel, or what the message names", "the tunnel could not log in: %v", err)
	case want.PrivateKey != "":
		v.say("the private key of %s@%s is readable", want.User, want.Host)
	default:
		v.say("%s@%s logs in without a key of the manifest", want.User, want.Host)
	}
}

// checkAgent asks the agent of the recorded VM.
func (d *doctor) checkAgent(ctx context.Context, v *verdict) {
	if d.st == nil || d.st.CurrentVMCID == "" {
		v.skip("there is no VM yet")
		return
	}
	if d.lost {
		v.skip("this machine has no connection to the VM's network")
		return
	}
	d.findAccess()
	if d.how.MBus == "" {
		v.warn("name the manifest, or give --old-mbus and --old-ca", "this machine does not know how to reach the agent of VM %s", d.st.CurrentVMCID)
		return
	}
	d.Agents.Settle(ctx, &d.how, d.st.DirectorID)
	client, err := d.Agents.At(d.how.MBus, d.how.CA, d.st.DirectorID)
	if err != nil {
		v.fail("correct cloud_provider.mbus and cloud_provider.cert.ca", "%v", err)
		return
	}
	defer client.Close()
	if client.Unverified() {
		v.warn("set cloud_provider.cert.ca to the CA of the agent's certificate", "no CA is known, so any server at its address is accepted as the agent")
	}
	now, seen, err := d.meetAgent(ctx, client)
	if err != nil {
		return // The context has ended.
	}
	d.seen = seen
	if !seen.Answers {
		remedy := seen.Hint
		if remedy == "" {
			remedy = "find out why it does not answer; `bootstrap deploy MANIFEST --fix` reboots the VM first and replaces it only if that does not help"
		}
		v.fail(remedy, "%s", strings.TrimSuffix(seen.Error, "; "+seen.Hint))
	} else {
		v.say("it answers at %s", seen.Address)
		switch lost, bare := plan.Lost(*d.st, now); {
		case bare, plan.Bare(now, d.st.Own.Processes):
			v.warn("`bootstrap deploy MANIFEST` applies the jobs again", "it has no jobs, although the last deploy applied them")
		case lost:
			v.warn("`bootstrap deploy MANIFEST` applies those of the manifest", "it has other jobs than those that the last deploy applied")
		case !d.st.Own.Stopped && len(plan.Missing(now, d.st.Own.Processes)) > 0:
			v.warn("`bootstrap deploy MANIFEST` applies the jobs again", "it does not report %s", strings.Join(plan.Missing(now, d.st.Own.Processes), ", "))
		case now.JobState != "running":
			v.warn("`bootstrap status MANIFEST` shows more", "its jobs are %s", now.JobState)
		}
	}
	if !showsCertificate(seen) {
		return
	}
	read := clock{of: "the agent", asked: time.Now()}
	if d.peer, err = client.Peer(ctx); err == nil && !d.peer.Date.IsZero() {
		read.date, read.answer = d.peer.Date, time.Now()
		d.clock = &read
	}
}

// If clocks differ by more than this, some or all certificates and signatures of clouds
// are refused.
const (
	clockWarn = time.Minute
	clockFail = 5 * time.Minute
)

// checkClock compares the clock with that of the agent, or of a server.
func (d *doctor) checkClock(ctx context.Context, v *verdict) {
	if d.clock == nil {
		d.clock = d.askServer(ctx)
	}
	if d.clock == nil {
		v.skip("no other clock could be read")
		return
	}
	const remedy = "set the clocks, and keep them right with NTP"
	off := d.clock.off()
	way := "behind"
	if off < 0 {
		way = "ahead of"
	}
	text := fmt.Sprintf("this machine's clock is %s %s that of %s", off.Abs().Round(time.Second), way, d.clock.of)
	switch {
	case off.Abs() > clockFail:
		v.fail(remedy, "%s", text)
	case off.Abs() > clockWarn:
		v.warn(remedy, "%s", text)
	default:
		v.say("this machine's clock agrees with that of %s", d.clock.of)
	}
}

// askServer returns the clock of the first server of the artifacts; nil: there is no
// server, or it sends no date.
func (d *doctor) askServer(ctx context.Context) *clock {
	list := sources(d.manifest())
	if len(list) == 0 || d.lost {
		return nil
	}
	u, err := url.Parse(list[0])
	if err != nil {
		return nil
	}
	choose, err := proxy.HTTP(d.Env.Getenv)
	if err != nil {
		return nil // checkProxies reports it
	}
	dial := d.Env.Route.Dial
	if dial == nil {
		dial = proxy.Direct().DialContext
	}
	trans := &http.Transport{Proxy: func(r *http.Request) (*url.URL, error) { return choose(r.URL) }, DialContext: guard.Dial(dial)}
	defer trans.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, instance.ExistingAgentTimeout)
	defer cancel()
	// It requests the server's root: the path of the file may be signed or contain a
	// password.
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.Scheme+"://"+u.Host+"/", nil)
	if err != nil {
		return nil
	}
	read := clock{of: u.Host, asked: time.Now()}
	client := http.Client{Transport: trans, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil
	}
	resp.Body.Close()
	if read.date, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return nil
	}
	read.answer = time.Now()
	return &read
}

// checkCertificates reports certificates that are not valid, or expire soon.
func (d *doctor) checkCertificates(ctx context.Context, v *verdict) {
	const remedy = "create it again (with bootstrap variables rotate if it is a variable) and deploy"
	now := time.Now()
	d.findAccess()
	list := d.certificates(ctx, d.peer.Certificates, d.how.CA, now)
	if len(list) == 0 {
		v.skip("no certificate is known")
		return
	}
	v.say("checked: %d", len(list))
	for _, c := range list {
		if text := c.fault(now); text != "" {
			v.fail(remedy, "%s", text)
		} else if text := c.ending(now, d.expiryWarning()); text != "" {
			v.warn(remedy, "%s", text)
		}
	}
	if v.result == CheckOK {
		first := slices.MinFunc(list, func(a, b Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		v.say("the first to expire is %s, on %s", first.title(), report.Minute(first.NotAfter))
	}
}

// infoTimeout limits the call of info, which does not need the cloud.
const infoTimeout = time.Minute

// checkCPI calls info of the installed CPI.
func (d *doctor) checkCPI(ctx context.Context, v *verdict) {
	if d.st == nil {
		v.skip("there is no state file, so no CPI is installed")
		return
	}
	k := d.Known
	if !instance.Exists(k.CPI) {
		v.skip("no CPI is installed for this deployment on this machine; deploy installs it")
		return
	}
	d.CPI.Build = &installation.Installation{Path: k.CPI, JobsDir: k.Jobs, PackagesDir: k.Packages}
	client := cpi.New(cpi.Config{Path: k.CPI, Env: d.CPI.Env(), DirectorID: d.st.DirectorID, StemcellAPI: k.StemcellAPI, Redact: d.Env.Redact, Timeout: infoTimeout})
	info, err := client.Info(ctx)
	if err != nil {
		v.fail("see "+filepath.Join(d.Dir, "cpi.log")+"; the next deploy installs the CPI again", "the CPI does not answer: %v", err)
		return
	}
	v.say("it answers, with API version %d", info.APIVersion)
}
