package agenttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"bootstrap/agent"
)

// pack makes a tar.gz of files. The files below a folder bin are executable.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	writer := tar.NewWriter(zipped)
	names := make([]string, 0, len(files))
	folders := map[string]bool{}
	for name := range files {
		names = append(names, name)
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for dir := range folders {
		names = append(names, dir)
	}
	sort.Strings(names)
	for _, name := range names {
		header := &tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		switch {
		case folders[name]:
			header.Name, header.Mode, header.Typeflag = header.Name+"/", 0o755, tar.TypeDir
		case path.Base(path.Dir(name)) == "bin":
			header.Mode = 0o755
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack reads an archive into a map of names without "./"; folders end in "/".
func unpack(t testing.TB, archive []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(zipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimPrefix(header.Name, "./"); name != "" {
			files[name] = string(content)
		}
	}
}

func uuid(t testing.TB) string {
	t.Helper()
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x-%x-4%x-8%x-%x", b[:4], b[4:6], b[7:8], b[9:10], b[10:])
}

func sha256Of(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// upload puts content into the agent's blobstore under a new id.
func (s *suite) upload(t testing.TB, content []byte) agent.Blob {
	t.Helper()
	file := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	id := uuid(t)
	if err := s.c.PutBlob(t.Context(), id, file, nil); err != nil {
		t.Fatal(err)
	}
	return agent.Blob{BlobstoreID: id, SHA1: sha256Of(content)}
}

func (s *suite) download(t testing.TB, blob agent.Blob) []byte {
	t.Helper()
	var content bytes.Buffer
	if err := s.c.GetBlobUpTo(t.Context(), agent.LogsLimit, blob.BlobstoreID, &content, blob.SHA1, nil); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

// The jobs read the VM's base folder from VCAP_ROOT on an embedded VM; on a real one it
// is /var/vcap.
const preamble = `#!/bin/sh
root=${VCAP_ROOT:-/var/vcap}
job=%[1]s
log=$root/sys/log/$job
data=$root/data/$job
`

// script returns one of a job's scripts, in which the variables root, job, log and data
// are set.
func script(job, body string) string { return fmt.Sprintf(preamble, job) + body }

const monit = `check process %[1]s
  with pidfile /var/vcap/sys/run/%[1]s/%[1]s.pid
  start program "/var/vcap/jobs/%[1]s/bin/ctl start"
    with timeout 30 seconds
  stop program "/var/vcap/jobs/%[1]s/bin/ctl stop"
    with timeout 30 seconds
  group vcap
`

// daemon is a job with one process that takes a moment to stop, and with all kinds of
// scripts. Its files contain mark.
func daemon(job, mark string) map[string]string {
	return map[string]string{
		"monit": fmt.Sprintf(monit, job),
		"bin/ctl": script(job, `
pidfile=$root/sys/run/$job/$job.pid
case $1 in
start)
  sh -c 'while :; do sleep 1; done' </dev/null >/dev/null 2>&1 &
  echo $! > "$pidfile"
  echo "started" >> "$log/ctl.log"
  ;;
stop)
  kill "$(cat "$pidfile")"
  sleep 0.3
  rm -f "$pidfile"
  echo "stopped" >> "$log/ctl.log"
  ;;
esac
`),
		"bin/pre-start": script(job, `
echo "`+mark+` out $EXTRA"
echo "`+mark+` err" >&2
echo "args=$#"
cat "$root/packages/one/info" "$root/jobs/$job/packages/one/info" "$root/packages/two/seen"
[ "$FAIL" != "$job" ] || exit 3
`),
		"bin/post-start": script(job, "echo post-start\n"),
		"bin/pre-stop":   script(job, "echo pre-stop\n"),
		"bin/post-stop":  script(job, "echo post-stop\n"),
		"bin/drain": script(job, `
echo "args=$*;state=$BOSH_JOB_STATE;next=$BOSH_JOB_NEXT_STATE" >> "$log/drain.log"
plan=$data/drain
[ -s "$plan" ] || { echo 0; exit 0; }
head -n 1 "$plan"
tail -n +2 "$plan" > "$plan.next"
mv "$plan.next" "$plan"
`),
		"bin/plan-drain": script(job, `printf '%b' "$PLAN" > "$data/drain"`+"\n"), // %b: dash takes -1 for an option of printf
		"bin/run":        script(job, "echo errand out\necho errand err >&2\nexit 7\n"),
		"bin/long":       script(job, "sleep 2\n"),
		"bin/keep":       script(job, `echo kept > "$root/store/kept"`+"\n"),
		"bin/kept":       script(job, `cat "$root/store/kept"; ls -A "$root/store"`+"\n"),
		"config/mark":    mark,
	}
}

// quiet is a job without processes.
func quiet(job string) map[string]string {
	return map[string]string{"monit": "", "bin/pre-start": script(job, `echo "pre-start of $job"`+"\n[ \"$FAIL\" != \"$job\" ] || exit 3\n")}
}

// spec uploads the jobs' rendered templates and returns their spec.
func (s *suite) spec(t testing.TB, hash string, versions map[string]string, jobs map[string]map[string]string) agent.Spec {
	t.Helper()
	files := map[string]string{}
	for job, tree := range jobs {
		for name, content := range tree {
			files[job+"/"+name] = content
		}
	}
	spec := s.empty(hash)
	if len(jobs) == 0 {
		return spec
	}
	spec.RenderedTemplates = s.upload(t, pack(t, files))
	for _, job := range sorted(jobs) {
		spec.Job.Templates = append(spec.Job.Templates, agent.SpecTemplate{Name: job, Version: versions[job]})
	}
	spec.Packages = s.packages
	return spec
}

// empty is a spec without jobs.
func (s *suite) empty(hash string) agent.Spec {
	networks := s.target.Networks
	if networks == nil {
		networks = map[string]map[string]any{}
	}
	return agent.Spec{
		Deployment: "agenttest", Name: "group", ID: "0", AZ: "unknown",
		Job:      agent.SpecJob{Name: "group", Templates: []agent.SpecTemplate{}},
		Packages: map[string]agent.SpecPackage{}, Networks: networks, ConfigurationHash: hash,
	}
}

// logs fetches the log files of a job.
func (s *suite) logs(t testing.TB, job string) map[string]string {
	t.Helper()
	blob, err := s.c.FetchLogs(t.Context(), "job", []string{job + "/*"})
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string]string{}
	for name, content := range unpack(t, s.download(t, blob.Blob)) {
		if file, ok := strings.CutPrefix(name, job+"/"); ok && file != "" {
			logs[file] = content
		} else if !strings.HasSuffix(name, "/") {
			t.Errorf("the filter %s/* lets %s through", job, name)
		}
	}
	return logs
}
