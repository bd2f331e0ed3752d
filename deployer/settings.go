package deployer

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

// agentStays lists the agent's settings that cannot change on the running VM,
// and why.
func (r *run) agentStays() (list []string, why string) {
	now, ok := r.folder().Agent()
	if ok && now.Fixed && now.VM == r.state.Get().CurrentVMCID {
		return []string{plan.PartCA, plan.PartCertificate, plan.PartPassword}, "this agent cannot change its settings"
	}
	return nil, ""
}

// updateAgent gives the running agent its new password and certificate, and
// ends well only when the agent has been seen to use them. From before they are
// sent until then, both ways to reach the agent are remembered.
func (r *run) updateAgent(ctx context.Context) error {
	vm := r.state.Get().CurrentVMCID
	m := r.manifest
	return r.do(fmt.Sprintf("Updating the settings of the agent on VM '%s'", vm), func(s *report.Stage) error {
		how := r.recallAgent(vm)
		before := how
		how.Next = &kept.Agent{VM: vm, MBus: m.CPI.MBus, CA: m.CPI.CA, Next: how.Next}
		if how.Made == nil && forgetsSettings(m) {
			how.Made = &agent.Access{MBus: how.MBus, CA: how.CA}
		}
		if err := r.keepAgent(how); err != nil {
			return err
		}
		fresh, err := r.rotateAgent(ctx, how)
		ignored := r.neverTook(before, err)
		if refusedBy(err) || ignored {
			// The agent keeps what it had.
			before.Fixed = ignored || agent.UnknownMessage(err)
			if err := r.keepAgent(before); err != nil {
				return err
			}
		}
		switch {
		case ignored:
			s.Warning(keepsSettings("the agent does not serve the certificate of the manifest, and does not take it"))
			return nil
		case agent.UnknownMessage(err):
			s.Warning(keepsSettings("the agent cannot change its settings"))
			keepAgentParts(r.want.Made, r.state.Get().Own.Made)
			return nil
		case err != nil:
			return err
		}
		r.agent, r.running = fresh, fresh
		now := kept.Agent{VM: vm, MBus: m.CPI.MBus, CA: m.CPI.CA, Made: how.Made}
		return r.keepCurrent(now)
	})
}

// neverTook reports whether the agent ignores a certificate that is not new to
// the record: agents of old stemcells serve one of their own from the beginning.
func (r *run) neverTook(before kept.Agent, err error) bool {
	var not *NotRotatedError
	return errors.As(err, &not) && not.Answers && (agent.Access{MBus: before.MBus}).User() == r.wantedAccess().User() &&
		len(r.state.Get().Own.Made) > 0 && len(plan.ChangedSettings(r.state.Get().Own.Made, r.want.Made)) == 0
}

// keepsSettings tells that the agent's settings are not those of the manifest.
func keepsSettings(why string) string {
	return why + ": it keeps its password and certificate until the VM is replaced, with deploy --recreate"
}

// refusedBy reports whether the agent has answered that it does not do it.
func refusedBy(err error) bool {
	var e *agent.Error
	return errors.As(err, &e)
}

// keepAgentParts takes back that the agent's settings are what was wanted.
func keepAgentParts(made, have map[string]string) {
	maps.DeleteFunc(made, func(k, _ string) bool { return plan.IsSetting(k) })
	for k, v := range have {
		if plan.IsSetting(k) {
			made[k] = v
		}
	}
}

// mbusSettings is what the agent is to listen with: at the address that the
// CPI told it, or else at any. The agent takes a certificate only if there is a
// CA beside it, or else goes back to the one that the VM was made with. It reads
// nothing of the CA: where the manifest has none, the certificate stands in.
func mbusSettings(m *manifest.Manifest) *agent.MBusSettings {
	listen, _ := plan.LookUp(m.CPI.Properties, "agent.mbus")
	text, _ := listen.(string)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		u = &url.URL{Scheme: "https", Host: net.JoinHostPort("0.0.0.0", cmp.Or(m.CPI.MBusURL.Port(), "6868"))}
	}
	u.User = m.CPI.MBusURL.User
	settings := &agent.MBusSettings{URLs: []string{u.String()}}
	mbus, _ := plan.LookUp(m.ResourcePool.Env, "bosh.mbus.cert")
	given, _ := mbus.(map[string]any)
	cert := agent.Cert{Certificate: textAt(given, "certificate"), PrivateKey: textAt(given, "private_key")}
	if cert.Certificate != "" && cert.PrivateKey != "" {
		cert.CA = cmp.Or(textAt(given, "ca"), m.CPI.CA, cert.Certificate)
		settings.Cert = cert
	}
	return settings
}

// wantedLeaf returns the certificate that the agent is to serve; nil where the
// manifest does not say, or is not at hand.
func wantedLeaf(m *manifest.Manifest) *x509.Certificate {
	if list := parsePEM(agentCertificate(m)); len(list) > 0 {
		return list[0]
	}
	return nil
}

func textAt(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}
