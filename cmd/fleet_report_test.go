package cmd

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bootstrap/cmd/exit"
)

// ranFleet makes a folder with a fleet file, the record of an unfinished run, and the log
// of its only member.
func ranFleet(t *testing.T) (dir string) {
	t.Helper()
	dir = inFolder(t, map[string]string{"fleet.yml": "members: [{manifest: m.yml}]\n", "m.yml": "name: m\n"})
	t.Chdir(dir)
	log := filepath.Join(dir, "pg-1.log")
	if err := os.WriteFile(log, []byte(strings.Repeat("a line\n", 2000)+"see https://u:PASSWORD@host/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	record := `{"format": 1, "id": "20261122-100000-000", "fleet": "` + filepath.ToSlash(dir) + `/fleet.yml", "name": "shop", "action": "update", "by": {"user": "anna", "host": "ci"},
		"started": "2026-11-22T10:00:00Z", "numbers": {"members": 1, "to_do": 1, "canaries": 1, "max_in_flight": 1, "max_failures": 0}, "logs": "logs",
		"members": [{"name": "pg-1", "verdict": "failed", "reason": "cannot reach https://u:PASSWORD@host/", "exit_code": 69, "canary": true, "attempts": 1,
			"started": "2026-11-22T10:00:01Z", "ended": "2026-11-22T10:00:03.5Z", "log": "` + filepath.ToSlash(log) + `"}]}`
	if err := os.WriteFile("fleet-run.json", []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFleetReport(t *testing.T) {
	ranFleet(t)
	forms := map[string]func(text string) bool{
		"": func(text string) bool {
			var got struct {
				Status  string
				Members []struct {
					Name    string
					Seconds float64
				}
			}
			err := json.Unmarshal([]byte(text), &got)
			return err == nil && got.Status == "killed" && len(got.Members) == 1 && got.Members[0].Seconds == 2.5
		},
		"--junit": func(text string) bool {
			var got struct {
				Suite struct {
					Failures int `xml:"failures,attr"`
				} `xml:"testsuite"`
			}
			return xml.Unmarshal([]byte(text), &got) == nil && got.Suite.Failures == 1 && strings.Count(text, "a line") == 39
		},
		"--html": func(text string) bool {
			return strings.Contains(text, "was killed and has not been continued") && strings.HasSuffix(text, "</html>\n")
		},
	}
	for form, good := range forms {
		args := append([]string{"fleet", "report", "fleet.yml"}, strings.Fields(form)...)
		code, out, errs := run(t, args...)
		if code != 0 || errs != "" || !good(out) || strings.Contains(out, "PASSWORD") {
			t.Errorf("%s: exit code %d, %s\n%s", form, code, errs, out)
		}
		_ = os.Remove("report") // a file of another form is not replaced
		code, said, errs := run(t, append(args, "--out", "report")...)
		data, err := os.ReadFile("report")
		if code != 0 || said != "" || errs != "" || err != nil || len(data)/100 != len(out)/100 { // only the time of the report may differ
			t.Errorf("%s --out: exit code %d, %v, %d bytes, %s%s", form, code, err, len(data), said, errs)
		}
		if info, err := os.Stat("report"); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s --out: %v, %v", form, info.Mode(), err)
		}
		code, out, _ = run(t, append(args, "--json")...)
		want := map[string]string{"": `{"kind":"fleet_report","format":1,`, "--junit": `{"kind":"document","text":"<?xml`, "--html": `{"kind":"document","text":"<!DOCTYPE`}[form]
		if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], want) || !strings.HasPrefix(lines[1], `{"kind":"result"`) {
			t.Errorf("%s --json: exit code %d, %.300s", form, code, out)
		}
	}
	if code, _, errs := run(t, "fleet", "report", "fleet.yml", "--out", "none/report"); code != exit.Failed || !strings.Contains(errs, "cannot write the report") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// Without a run, report ends like status.
func TestFleetReportWithoutRun(t *testing.T) {
	t.Chdir(inFolder(t, map[string]string{"fleet.yml": "members: [{manifest: m.yml}]\n"}))
	code, out, errs := run(t, "fleet", "report", "fleet.yml")
	wantCode, wantOut, wantErrs := run(t, "fleet", "status", "fleet.yml")
	if code != wantCode || code == 0 || out != wantOut || errs != wantErrs {
		t.Errorf("exit code %d, %s%s; status: %d, %s%s", code, out, errs, wantCode, wantOut, wantErrs)
	}
}
