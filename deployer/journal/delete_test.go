//go:build unix

package journal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/report"
)

// After a failed delete, the CPI is asked whether the object exists, if it has a method
// for that and may be asked.
func TestDelete(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, reply, has string
		gone               bool   // true: the record was removed
		open               bool   // true: the call is still announced
		skipped            string // reason for skipping
		err                string
		asked              string // question after the delete
	}{
		"done":                               {method: "delete_vm", reply: null, has: yes, gone: true},
		"missing VM":                         {method: "delete_vm", reply: refuses(cpi.TypeVMNotFound), has: yes, gone: true, skipped: "VM not found"},
		"missing disk":                       {method: "delete_disk", reply: refuses(cpi.TypeDiskNotFound), has: yes, gone: true, skipped: "Disk not found"},
		"missing stemcell":                   {method: "delete_stemcell", reply: refuses(cpi.TypeStemcellNotFound), gone: true, skipped: "Stemcell not found"},
		"missing stemcell of another CPI":    {method: "delete_stemcell", reply: `echo '{"error":{"type":"Bosh::Clouds::CloudError","message":"Image sc-1 not found"}}'`, gone: true, skipped: "Stemcell not found"},
		"another stemcell is missing":        {method: "delete_stemcell", reply: `echo '{"error":{"type":"Bosh::Clouds::CloudError","message":"Image sc-9 not found"}}'`, err: "sc-9 not found"},
		"another thing is missing":           {method: "delete_disk", reply: refuses(cpi.TypeVMNotFound), has: yes, err: "no way", asked: `; has_disk ["disk-1"]`},
		"refused, does not exist":            {method: "delete_vm", reply: refuses(cpi.TypeCloudError), has: no, gone: true, asked: `; has_vm ["vm-1"]`},
		"refused, exists":                    {method: "delete_vm", reply: refuses(cpi.TypeCloudError), has: yes, err: "no way", asked: `; has_vm ["vm-1"]`},
		"refused, the CPI cannot be asked":   {method: "delete_vm", reply: refuses(cpi.TypeCloudError), has: refuses(cpi.TypeNotImplemented), err: "no way", asked: `; has_vm ["vm-1"]`},
		"refused, a bad answer":              {method: "delete_disk", reply: refuses(cpi.TypeCloudError), has: `echo '{"result":"no"}'`, err: "no way", asked: `; has_disk ["disk-1"]`},
		"garbage, does not exist":            {method: "delete_disk", reply: garbage, has: no, gone: true, asked: `; has_disk ["disk-1"]`},
		"killed, exists":                     {method: "delete_disk", reply: dies, has: yes, err: "signal: killed", asked: `; has_disk ["disk-1"]`},
		"killed, unknown":                    {method: "delete_disk", reply: dies, has: garbage, open: true, err: "signal: killed", asked: `; has_disk ["disk-1"]`},
		"stemcell, refused":                  {method: "delete_stemcell", reply: refuses(cpi.TypeCloudError), err: "no way"},
		"stemcell, killed: no method to ask": {method: "delete_stemcell", reply: dies, open: true, err: "signal: killed"},
		"a CPI that hangs is not asked":      {method: "delete_vm", reply: hangs, has: no, open: true, err: "the CPI gave no reply within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployed(t, map[string]string{c.method: c.reply, "has_vm": c.has, "has_disk": c.has})
			if c.reply == hangs {
				d.State.Close()
				d = opened(t, d.dir, cpi.Config{Timeout: time.Second, Grace: time.Millisecond})
				defer d.State.Close()
			}
			err := d.call(t.Context(), c.method)
			var skipped report.Skip
			if errors.As(err, &skipped); string(skipped) != c.skipped {
				t.Errorf("skipped %q, want %q", skipped, c.skipped)
			}
			if (err == nil) != (c.err == "" && c.skipped == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			cid := samples()[c.method].in.CID
			if st := d.State.Get(); recorded(st, cid) == c.gone || (len(st.Own.Intents) == 1) != c.open {
				t.Errorf("recorded %t, announced %v", recorded(st, cid), st.Own.Intents)
			}
			if !c.open {
				d.finished(t)
			}
			if want := samples()[c.method].asks + c.asked; d.calls() != want {
				t.Errorf("the CPI is asked %s, want %s", d.calls(), want)
			}
			if text := "does not exist any more: "; strings.Contains(d.reported(), text) != (c.gone && c.asked != "") {
				t.Errorf("reported %s", d.reported())
			}
		})
	}
}

// A CPI that does not start is not asked, and a call that had not begun does not stay
// announced.
func TestDeleteWithoutCPI(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"has_vm": no})
	d.client = cpi.New(cpi.Config{Path: d.dir + "/absent"})
	err := d.call(t.Context(), "delete_vm")
	var unstarted *cpi.StartError
	if !errors.As(err, &unstarted) || d.calls() != "" || d.State.Get().CurrentVMCID != "vm-1" {
		t.Errorf("error %v, calls %q, VM %q", err, d.calls(), d.State.Get().CurrentVMCID)
	}
	d.finished(t)
}

// If the result of a delete cannot be recorded, the run fails. The next run reads the
// result from the reply, and asks nothing.
func TestDeletedAndNotRecorded(t *testing.T) {
	t.Parallel()
	d := deployed(t, map[string]string{"delete_vm": breakState + "; " + null, "has_vm": yes})
	if err := d.call(t.Context(), "delete_vm"); err == nil || !strings.Contains(err.Error(), "state.json") {
		t.Errorf("error %v", err)
	}
	d.repairState(t)
	if err := d.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.State.Get().CurrentVMCID != "" || d.calls() != `delete_vm ["vm-1"]` || !strings.Contains(d.reported(), "gone") {
		t.Errorf("VM %q, calls %s\n%s", d.State.Get().CurrentVMCID, d.calls(), d.reported())
	}
	d.finished(t)
}
