package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/manifest"
)

// agentChanged lists which of the agent's own settings changed: those that a
// running agent can take over.
func agentChanged(have, want map[string]string) []string {
	var list []string
	for _, p := range changedParts(have, want) {
		if isAgentPart(p) {
			list = append(list, strings.TrimPrefix(p, "the agent: "))
		}
	}
	return list
}

func isAgentPart(part string) bool {
	return strings.HasPrefix(part, "the agent: ") && part != partAgentAddress
}

// restartTimeout is how long an agent may take to come back with new settings.
const restartTimeout = 2 * time.Minute

// updateAgent gives the running agent its new password and certificate. How it
// is to be reached then is kept before: whichever of the two answers after a
// run that was cut is the one.
func (r *run) updateAgent(ctx context.Context) error {
	vm := r.state.Get().CurrentVMCID
	m := r.manifest
	return r.do(fmt.Sprintf("Updating the settings of the agent on VM '%s'", vm), func(s *stage) error {
		how := r.recallAgent(vm)
		how.Next = &agentOfRunning{VM: vm, MBus: m.CPI.MBus, CA: m.CPI.CA}
		if err := r.keepAgent(how); err != nil {
			return err
		}
		err := r.sendSettings(ctx, agent.UpdateSettings{MBus: mbusSettings(m)})
		if agent.UnknownMessage(err) {
			s.warning("the agent cannot change its settings: it keeps its password and certificate until the VM is replaced, with deploy --recreate")
			keepAgentParts(r.want.made, r.state.Get().Own.Made)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The agent restarts, maybe before it has answered.
		fresh, err2 := r.newAgent(m.CPI.MBus, m.CPI.CA)
		if err2 != nil {
			return errors.Join(err, err2)
		}
		if err2 := fresh.WaitReady(ctx, min(restartTimeout, r.opts.AgentTimeout), nil); err2 != nil {
			return errors.Join(fmt.Errorf("the agent does not answer with its new settings: %w", err2), err)
		}
		r.agent, r.running = fresh, fresh
		return r.rememberAgent(vm)
	})
}

// sendSettings sends them, and does not wait for long for the answer of an
// agent that may be gone by then and come back another one.
func (r *run) sendSettings(ctx context.Context, s agent.UpdateSettings) error {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	return r.agent.UpdateSettings(ctx, s)
}

// settingsTimeout is how long the agent's answer to new settings is waited
// for: whether it took them over, the way to it with the new ones tells.
const settingsTimeout = 10 * time.Second

// keepAgentParts takes back that the agent's settings are what was wanted.
func keepAgentParts(made, have map[string]string) {
	maps.DeleteFunc(made, func(k, _ string) bool { return isAgentPart(k) })
	for k, v := range have {
		if isAgentPart(k) {
			made[k] = v
		}
	}
}

// mbusSettings is what the agent is to listen with: at the address that the
// CPI told it, or else at any.
func mbusSettings(m *manifest.Manifest) *agent.MBusSettings {
	listen, _ := lookUp(m.CPI.Properties, "agent.mbus")
	text, _ := listen.(string)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		u = &url.URL{Scheme: "https", Host: net.JoinHostPort("0.0.0.0", cmp.Or(m.CPI.MBusURL.Port(), "6868"))}
	}
	u.User = m.CPI.MBusURL.User
	settings := &agent.MBusSettings{URLs: []string{u.String()}}
	mbus, _ := lookUp(m.ResourcePool.Env, "bosh.mbus.cert")
	cert, _ := mbus.(map[string]any)
	settings.Cert = agent.Cert{CA: textAt(cert, "ca"), Certificate: textAt(cert, "certificate"), PrivateKey: textAt(cert, "private_key")}
	return settings
}

func textAt(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}
