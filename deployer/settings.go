package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"

	"bootstrap/agent"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

// settings changes the password and the certificate of the running agent.
type settings struct {
	*work
	agents *instance.Agents
}

// forgetsSettings reports whether the agent keeps its settings only in memory: after a
// reboot it has the settings of create_vm again.
func forgetsSettings(m *manifest.Manifest) bool {
	value, _ := plan.LookUp(m.ResourcePool.Env, "bosh.agent.settings.tmpfs")
	return value == true
}

// update sends the running agent its new password and certificate, and waits until the
// agent uses them. Until then this machine's record has the old and the new access.
func (se *settings) update(ctx context.Context) error {
	vm := se.vm
	m := se.in.Manifest
	return se.rec.Out.Do(fmt.Sprintf("Updating the settings of the agent on VM '%s'", vm), func(s *report.Stage) error {
		how := se.agents.Recall(vm)
		before := how
		how.Next = &kept.Agent{VM: vm, MBus: m.CPI.MBus, CA: m.CPI.CA, Next: how.Next}
		if how.Made == nil && forgetsSettings(m) {
			how.Made = &agent.Access{MBus: how.MBus, CA: how.CA}
		}
		if err := se.agents.Keep(how); err != nil {
			return err
		}
		fresh, err := se.rotate(ctx, how)
		ignored := se.neverTook(before, err)
		if refusedBy(err) || ignored {
			// The agent keeps its old settings.
			before.Fixed = ignored || agent.UnknownMessage(err)
			if err := se.agents.Keep(before); err != nil {
				return err
			}
		}
		switch {
		case ignored:
			s.Warning(keepsSettings("the agent does not serve the certificate of the manifest, and does not accept it"))
			return nil
		case agent.UnknownMessage(err):
			s.Warning(keepsSettings("the agent cannot change its settings"))
			keepAgentParts(se.want.Made, se.rec.State.Get().Own.Made)
			return nil
		case err != nil:
			return err
		}
		se.agent, se.look.Running = fresh, fresh
		now := kept.Agent{VM: vm, MBus: m.CPI.MBus, CA: m.CPI.CA, Made: how.Made}
		return se.agents.KeepCurrent(now)
	})
}

// neverTook reports whether the agent ignores a certificate that is recorded already:
// agents of old stemcells always serve their own certificate.
func (se *settings) neverTook(before kept.Agent, err error) bool {
	var not *NotRotatedError
	return errors.As(err, &not) && not.Answers && (agent.Access{MBus: before.MBus}).User() == se.agents.Wanted().User() &&
		len(se.rec.State.Get().Own.Made) > 0 && len(plan.ChangedSettings(se.rec.State.Get().Own.Made, se.want.Made)) == 0
}

// keepsSettings returns a warning that the agent's settings differ from the manifest.
func keepsSettings(why string) string {
	return why + ": it keeps its password and certificate until the VM is replaced, with deploy --recreate"
}

// refusedBy reports whether the agent answered with an error.
func refusedBy(err error) bool {
	var e *agent.Error
	return errors.As(err, &e)
}

// keepAgentParts replaces the agent's settings in made by those in have.
func keepAgentParts(made, have map[string]string) {
	maps.DeleteFunc(made, func(k, _ string) bool { return plan.IsSetting(k) })
	for k, v := range have {
		if plan.IsSetting(k) {
			made[k] = v
		}
	}
}

// mbusSettings returns the agent's new settings for mbus. The agent listens at the
// address that the CPI gave it, or at any address. It accepts a certificate only together
// with a CA, which it does not read; without a CA in the manifest, the certificate is
// sent as the CA.
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

func textAt(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}
