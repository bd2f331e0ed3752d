//go:build unix

package templates

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"bootstrap/artifact"
)

// benchJobs returns jobs with ten templates each.
func benchJobs(b *testing.B, count int) []Job {
	b.Helper()
	text := strings.Repeat("line <%= p('a.both') %>\n<% if_p('a.list') do |l| -%>\n<%= l.to_json %>\n<% end -%>\n", 20)
	c, properties := sample()
	var jobs []Job
	for left := count; left > 0; left -= 10 {
		files := map[string]string{}
		for i := range min(left, 10) {
			files[fmt.Sprintf("f%d", i)] = text
		}
		job := newJob(b, fmt.Sprintf("job%d", left), files, properties...)
		job.Context = c
		jobs = append(jobs, job)
	}
	return jobs
}

// BenchmarkRender measures a whole run from start to end. MB-peak is the largest memory
// of a child process.
func BenchmarkRender(b *testing.B) {
	for _, count := range []int{1, 20, 200} {
		jobs := benchJobs(b, count)
		b.Run(fmt.Sprintf("embedded/%d", count), func(b *testing.B) {
			cfg := embedded(b)
			renderAll(b, cfg, jobs) // It fills the cache.
			for b.Loop() {
				b.ReportMetric(renderAll(b, cfg, jobs), "MB-peak")
			}
		})
		b.Run(fmt.Sprintf("native/%d", count), func(b *testing.B) {
			cfg := native(b)
			for b.Loop() {
				b.ReportMetric(renderAll(b, cfg, jobs), "MB-peak")
			}
		})
		b.Run(fmt.Sprintf("process-per-template/%d", count), func(b *testing.B) {
			cfg := native(b)
			for b.Loop() {
				for _, job := range jobs {
					for _, t := range job.Templates {
						one, only := job, *job.Job
						only.Templates = append(only.Templates[:0:0], t)
						one.Job = &only
						renderAll(b, cfg, []Job{one})
					}
				}
			}
		})
	}
}

// BenchmarkManyProperties renders 200 templates of a job that declares 600
// properties.
func BenchmarkManyProperties(b *testing.B) {
	cfg := embedded(b)
	c, properties := sample()
	for i := range 600 {
		properties = append(properties, artifact.Property{Name: fmt.Sprintf("large.group%d.key%d", i%20, i), Default: fmt.Sprintf("a default of some length %d", i)})
	}
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("f%d", i)] = "x <%= p('large.group1.key1') %>"
	}
	job := newJob(b, "job", files, properties...)
	job.Context = c
	renderAll(b, cfg, []Job{job}) // It fills the cache.
	for b.Loop() {
		renderAll(b, cfg, []Job{job})
	}
}

// BenchmarkCold measures the first template that is rendered on a machine.
func BenchmarkCold(b *testing.B) {
	cfg, jobs := embedded(b), benchJobs(b, 1)
	cfg.Cache = b.TempDir() + "/cache"
	for b.Loop() {
		b.ReportMetric(renderAll(b, cfg, jobs), "MB-peak")
		if err := os.RemoveAll(cfg.Cache); err != nil {
			b.Fatal(err)
		}
	}
}

func renderAll(b *testing.B, cfg Config, jobs []Job) float64 {
	b.Helper()
	e := Start(b.Context(), cfg)
	if err := e.Render(b.Context(), jobs, b.TempDir()); err != nil {
		b.Fatal(err)
	}
	cmd := e.ruby.cmd
	if err := e.Close(); err != nil {
		b.Fatal(err)
	}
	peak := float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS == "darwin" {
		return peak / 1e6 // macOS counts bytes
	}
	return peak / 1e3
}
