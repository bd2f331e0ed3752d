//go:build unix

package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// The condition of a member is read from what status prints and how it ends.
func TestAskNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does    string
		state   Condition
		problem string
	}{
		"well":            {`echo '{"kind":"status","well":true,"vm":{"cid":"vm-1"},"agent":{"answers":true}}'`, Runs, ""},
		"not well":        {`echo '{"kind":"status","vm":{"cid":"vm-1"},"agent":{"answers":true},"problems":["job web is failing","more"]}'; exit 1`, NotWell, "job web is failing"},
		"stopped":         {`echo '{"kind":"status","stopped":true,"vm":{"cid":"vm-1"},"agent":{"answers":true},"problems":["it is stopped"]}'; exit 1`, Stopped, ""},
		"silent":          {`echo '{"kind":"status","vm":{"cid":"vm-1"},"agent":{"answers":false},"problems":["no answer"]}'; exit 69`, Unreachable, "no answer"},
		"silent, no more": {`echo '{"kind":"result","error":"its agent is silent"}'; exit 69`, Unreachable, "its agent is silent"},
		"no VM":           {`echo '{"kind":"status","problems":["there is no VM"]}'; exit 1`, NoVM, ""},
		"no state":        {`echo '{"kind":"result","error":"no state"}'; exit 66`, NoVM, ""},
		"an error":        {`echo '{"kind":"result","error":"the manifest is bad"}'; exit 1`, Unknown, "the manifest is bad"},
		"no result":       {`echo oops >&2; exit 3`, Unknown, "its process ended without a result: exit status 3 oops"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "ab", "", map[string]string{"status a": c.does + "; exit", "status b": `echo '{"kind":"status","well":true,"vm":{"cid":"vm-b"},"agent":{"answers":true}}'; exit`})
			opts := s.options(t)
			now, err := AskNow(t.Context(), opts.Program, opts.Fleet, opts.Fleet.Members, nil)
			if err != nil {
				t.Fatal(err)
			}
			if a := now.Members[0]; a.Name != "a" || a.State != c.state || a.Problem != c.problem {
				t.Errorf("%+v", a)
			}
			if b := now.Members[1]; b.State != Runs || b.VM != "vm-b" || now.Well != (c.state == Runs) {
				t.Errorf("well: %t, %+v", now.Well, b)
			}
			if s.record(t) != nil {
				t.Error("asking has written a record")
			}
		})
	}
}

// The error of an interrupted AskNow says what was interrupted.
func TestAskNowInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "a", "", nil)
	opts := s.options(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := AskNow(ctx, opts.Program, opts.Fleet, opts.Fleet.Members, nil)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || !strings.Contains(err.Error(), "asked for their status") {
		t.Errorf("%v", err)
	}
}
