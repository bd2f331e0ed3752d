//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"
)

// pipelines PAGE FOLDER writes the scripts of the pipelines on a page, as files
// KIND/JOB/STEP in the folder, and prints their names: of the workflow of GitHub Actions,
// and of the tasks of Concourse. It also writes each other block of YAML that begins
// with its path.
func pipelines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pipelines PAGE FOLDER")
	}
	write := func(name, text string) {
		path := filepath.Join(ts.MkAbs(args[1]), name)
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
		ts.Check(os.WriteFile(path, []byte(text), 0o600))
		fmt.Fprintln(ts.Stdout(), name)
	}
	for _, block := range strings.Split(ts.ReadFile(args[0]), "\n```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```\n")
		first, _, _ := strings.Cut(block, "\n")
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ ID, Run string } }
		}
		var pipeline struct {
			Jobs []struct {
				Name string
				Plan []struct {
					Task   string
					Config struct {
						Run struct {
							Path string
							Args []string
						}
					}
				}
			}
		}
		name := strings.TrimPrefix(first, "# ")
		switch {
		case strings.HasPrefix(name, ".github/"):
			ts.Check(yaml.Unmarshal([]byte(block), &workflow))
			for job, of := range workflow.Jobs {
				for _, step := range of.Steps {
					if step.Run != "" {
						write(filepath.Join("github", job, step.ID), step.Run)
					}
				}
			}
		case name == "pipeline.yml":
			ts.Check(yaml.Unmarshal([]byte(block), &pipeline))
			for _, job := range pipeline.Jobs {
				for _, step := range job.Plan {
					if run := step.Config.Run; step.Task != "" {
						if run.Path != "bash" || len(run.Args) != 2 || run.Args[0] != "-ec" {
							ts.Fatalf("the task %s runs %s %q", step.Task, run.Path, run.Args)
						}
						write(filepath.Join("concourse", job.Name, step.Task), run.Args[1])
					}
				}
			}
		default:
			write(name, block+"\n")
		}
	}
}
