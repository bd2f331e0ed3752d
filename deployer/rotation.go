package deployer

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/internal/wait"
)

// How long an agent may take to use new settings. It restarts for that, which takes
// seconds. The limits are shorter if the agent says that it is done, or shows no sign of
// new settings.
const (
	restartTimeout = 2 * time.Minute
	answerTimeout  = 20 * time.Second
	endedTimeout   = 3 * time.Second
	lookTimeout    = 5 * time.Second
	lookFirst      = 20 * time.Millisecond
	lookLast       = 500 * time.Millisecond
)

// NotRotatedError says that the agent does not use the new settings.
type NotRotatedError struct {
	What    string // what the agent does, and what to do
	Answers bool
	Err     error // may be nil
}

func (e *NotRotatedError) Error() string {
	text := "cannot change the settings of the agent: " + e.What
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *NotRotatedError) Name() string { return "agent-settings" }

func (e *NotRotatedError) Unwrap() error { return e.Err }

// rotation is a change of the agent's password and certificate.
type rotation struct {
	old, fresh *agent.Client // clients that trust the CAs of both settings
	strict     *agent.Client // the final access: new password, and only the new CA
	want       *x509.Certificate
	user       bool      // true: the password or the user changes
	task       string    // id of the agent's task; empty: unknown or ended
	ended      time.Time // when the agent reported the end of the task; zero: it did not
	refusal    error     // the agent's answer, if it refused
}

// rotate sends the settings of the manifest to the agent, and waits until the agent uses
// them. It returns the client for the new settings.
func (se *settings) rotate(ctx context.Context, how kept.Agent) (*agent.Client, error) {
	m := se.in.Manifest
	now, next := agent.Access{MBus: how.MBus, CA: how.CA}, se.agents.Wanted()
	both := []agent.Access{now, next}
	settings := agent.UpdateSettings{MBus: mbusSettings(m), DiskAssociations: associations(se.rec.State.Get())}
	c := rotation{user: now.User() != next.User()}
	if settings.MBus.Cert.Certificate != "" {
		c.want = instance.WantedLeaf(m)
	}
	var errs [3]error
	c.old, errs[0] = se.agents.New(now.MBus, agent.Trusted(both, now))
	c.fresh, errs[1] = se.agents.New(next.MBus, agent.Trusted(both, next))
	c.strict, errs[2] = se.agents.New(next.MBus, next.CA)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	defer c.old.Close()
	defer c.fresh.Close()
	sent, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	task, err := se.agent.BeginUpdateSettings(sent, settings)
	var lost *agent.UnreachableError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !(errors.As(err, &lost) && lost.Sent):
		return nil, err // The message did not arrive, or the agent refused it.
	}
	c.task = task
	if err == nil && task == "" {
		c.ended = time.Now()
	}
	if err := c.wait(ctx, min(restartTimeout, se.rec.Env.AgentTimeout), err); err != nil {
		return nil, err
	}
	if c.want != nil {
		se.rec.Out.Info("The agent serves the certificate with the serial number " + instance.Serial(c.want))
	}
	return c.strict, nil
}

// wait asks the agent repeatedly until it uses the new settings. met is the error of
// sending the settings.
func (c *rotation) wait(ctx context.Context, limit time.Duration, met error) error {
	start := time.Now()
	for pauses := wait.Grow(lookFirst, lookLast, 1.5); ; {
		s := c.look(ctx)
		waited := time.Since(start)
		silent := c.task == "" && waited >= answerTimeout || !c.ended.IsZero() && time.Since(c.ended) >= endedTimeout
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.done() && (c.task == "" || waited >= answerTimeout):
			return nil
		case c.refusal != nil && s.untouched():
			return c.refusal
		case s.hasOnlyPassword(), waited >= limit, silent && s.answers():
			if !s.answers() {
				met = s.err
			}
			return &NotRotatedError{What: s.advice(), Answers: s.answers(), Err: met}
		}
		c.askTask(ctx, s)
		if err := wait.For(ctx, pauses.Next()); err != nil {
			return err
		}
	}
}

// served describes the agent's behaviour towards clients.
type served struct {
	*rotation
	leaf        *x509.Certificate
	certificate bool  // it serves the wanted certificate, or none is wanted
	takesOld    bool  // it accepts the old password
	refusesOld  bool  // it certainly refuses the old password
	takesNew    bool  // it accepts the new password
	trustsNew   bool  // the new CA verifies the served certificate
	err         error // the error of trying the new password
}

// look tries each password once, if one of the CAs has signed the certificate.
func (c *rotation) look(ctx context.Context) served {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s := served{rotation: c}
	s.err = c.strict.Ping(ctx)
	s.takesNew, s.trustsNew = s.err == nil, s.err == nil
	if !s.takesNew {
		s.takesNew = c.fresh.Ping(ctx) == nil
	}
	if c.user {
		err := c.old.Ping(ctx)
		var e *agent.UnreachableError
		s.takesOld = err == nil
		s.refusesOld = errors.As(err, &e) && e.Last.Cause == agent.Unauthorized
	}
	// This is the last check: an agent that refuses the old password has restarted, and
	// serves its final certificate.
	if peer, err := c.fresh.Peer(ctx); err == nil && len(peer.Certificates) > 0 {
		s.leaf = peer.Certificates[0]
	}
	s.certificate = c.want == nil || s.leaf != nil && c.want.Equal(s.leaf)
	return s
}

// askTask asks whether the task of changing the settings has ended. The agent restarts
// during that task.
func (c *rotation) askTask(ctx context.Context, s served) {
	client := c.fresh
	switch {
	case c.task == "" || !s.answers():
		return
	case !s.takesNew:
		client = c.old
	}
	_, running, err := client.GetTask(ctx, c.task)
	switch {
	case err == nil && !running, agent.UnknownTask(err): // The restart has ended the task.
		c.task, c.ended = "", time.Now()
	case refusedBy(err):
		c.task, c.refusal = "", err
	}
}

func (s served) answers() bool { return s.takesOld || s.takesNew }

// done reports whether the agent uses the new settings, and only these.
func (s served) done() bool {
	return s.certificate && s.trustsNew && (!s.user || s.refusesOld)
}

// untouched reports whether the agent uses none of the new settings.
func (s served) untouched() bool {
	if s.user {
		return s.takesOld && !s.takesNew
	}
	return s.takesNew && !s.certificate
}

// hasOnlyPassword reports whether the agent certainly uses the new password with the old
// certificate: it has restarted with both.
func (s served) hasOnlyPassword() bool { return s.user && s.takesNew && s.refusesOld && !s.certificate }

// advice returns how the agent behaves, and what to do.
func (s served) advice() string {
	switch {
	case s.takesNew && !s.certificate:
		text := fmt.Sprintf("it serves the certificate with the serial number %s instead of the one with %s", instance.Serial(s.leaf), instance.Serial(s.want))
		if s.user {
			text += ", and has taken the new password"
		}
		return text + "; run the deploy again, or replace the VM with deploy --recreate"
	case s.takesNew && s.takesOld:
		return "it accepts the old password as well as the new one; run the deploy again, or replace the VM with deploy --recreate"
	case s.takesOld:
		return "it still uses its old password; run the deploy again, or replace the VM with deploy --recreate"
	}
	return "it does not answer after it received the new settings; run the deploy again: it tries the old and the new settings"
}
