package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// sessions serves sessions that echo their input, report their terminal, and end as the
// command says: with an exit status, or by a signal.
func sessions(s *sshServer, asked ssh.NewChannel) {
	ch, reqs, err := asked.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range reqs {
		switch r.Type {
		case "pty-req":
			var want struct {
				Term          string
				Columns, Rows uint32
				Rest          []byte `ssh:"rest"`
			}
			_ = r.Reply(ssh.Unmarshal(r.Payload, &want) == nil, nil)
			fmt.Fprintf(ch, "%s %dx%d\n", want.Term, want.Columns, want.Rows)
		case "window-change":
			var want struct {
				Columns, Rows uint32
				Rest          []byte `ssh:"rest"`
			}
			_ = ssh.Unmarshal(r.Payload, &want)
			fmt.Fprintf(ch, "now %dx%d\n", want.Columns, want.Rows)
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{5}))
			return
		case "exec":
			var want struct{ Command string }
			_ = r.Reply(ssh.Unmarshal(r.Payload, &want) == nil, nil)
			var status uint32
			switch n, _ := fmt.Sscan(want.Command, &status); {
			case want.Command == "hang":
				continue
			case n == 1:
				_, _ = io.Copy(ch, ch)
				_, _ = io.WriteString(ch.Stderr(), "errors")
				_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			case want.Command != "cut":
				_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
					Signal      string
					Core        bool
					Error, Lang string
				}{want.Command, false, "", ""}))
			}
			return
		default:
			_ = r.Reply(r.Type == "shell", nil)
		}
	}
}

func TestRunSession(t *testing.T) {
	t.Parallel()
	private, public, err := OneTimeKey()
	if err != nil {
		t.Fatal(err)
	}
	hostKey := newSigner(t)
	server := newServer(t, &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) != public {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}, hostKey)
	server.set(func() { server.session = sessions })
	cfg := configFor(t, server)
	cfg.PrivateKey, cfg.Password, cfg.KnownHosts = private, "", ""
	cfg.HostKey = string(ssh.MarshalAuthorizedKey(hostKey.PublicKey()))

	for command, want := range map[string]int{"0": 0, "7": 7, "KILL": 137} {
		var out, errs bytes.Buffer
		status, err := Run(t.Context(), cfg, Session{Command: command, Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errs})
		if err != nil || status != want || want < 100 && out.String()+errs.String() != "helloerrors" {
			t.Errorf("%s: %d, %v, %q, %q", command, status, err, out.String(), errs.String())
		}
	}
	if _, err := Run(t.Context(), cfg, Session{Command: "cut"}); err == nil || !strings.Contains(err.Error(), "was interrupted") {
		t.Errorf("cut: %v", err)
	}

	// The size of the terminal is sent, and sent again when it changes, and the mode of
	// the terminal is restored at the end.
	resized := make(chan struct{}, 1)
	resized <- struct{}{}
	raw := 0
	var out bytes.Buffer
	status, err := Run(t.Context(), cfg, Session{Stdout: &out, Terminal: &Terminal{
		Type: "dumb", Resized: resized,
		Size: func() (int, int) { return 111, 33 },
		Raw:  func() (func(), error) { raw++; return func() { raw += 10 }, nil },
	}})
	if err != nil || status != 5 || raw != 11 || out.String() != "dumb 111x33\nnow 111x33\n" {
		t.Errorf("terminal: %d, %v, raw %d, %q", status, err, raw, out.String())
	}

	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	go func() { <-began; cancel() }()
	if _, err := Run(ctx, cfg, Session{Command: "hang", Stdin: beginning(began)}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by its context: %v", err)
	}

	// Another machine than the expected one answers.
	cfg.HostKey = string(ssh.MarshalAuthorizedKey(newSigner(t).PublicKey()))
	var other *HostKeyError
	if _, err := Run(t.Context(), cfg, Session{Command: "0"}); !errors.As(err, &other) {
		t.Errorf("another host key: %v", err)
	}
	cfg.HostKey = "no key"
	if _, err := Run(t.Context(), cfg, Session{Command: "0"}); err == nil {
		t.Error("a host key that is none")
	}
}

// beginning is an input without content, which reports when somebody reads from it.
type beginning chan struct{}

func (b beginning) Read([]byte) (int, error) {
	close(b)
	return 0, io.EOF
}
