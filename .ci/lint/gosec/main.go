// Gosec checks the packages below a folder by gosec's rules. gosec's own program
// finds the same, but loads each package by itself, and brings the clients of
// several AI services, which take longer to compile than the rest.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/report"
	"github.com/securego/gosec/v2/rules"
	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gosec CONFIG FOLDER")
		os.Exit(2)
	}
	found, err := check(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gosec:", err)
	}
	if err != nil || found {
		os.Exit(1)
	}
}

// check prints the findings in the packages below dir, and reports whether there are any.
func check(configFile, dir string) (found bool, err error) {
	config, excluded, err := read(configFile)
	if err != nil {
		return false, err
	}
	rule, analyzer := rules.Generate(false, rules.NewRuleFilter(true, excluded...)), analyzers.Generate(false, analyzers.NewAnalyzerFilter(true, excluded...))
	checker := gosec.NewAnalyzer(config, false, false, false, 1, log.New(io.Discard, "", 0))
	checker.LoadRules(rule.RulesInfo())
	checker.LoadAnalyzers(analyzer.AnalyzersInfo())

	list, err := packages.Load(&packages.Config{Mode: gosec.LoadMode, Dir: dir}, "./...")
	if err != nil {
		return false, err
	}
	if len(list) == 0 {
		return false, errors.New("there are no packages")
	}
	// A rule asks for the Go version at every loop, and starts go list each time.
	if m := list[0].Module; m != nil {
		if err := os.Setenv("GOSECGOVERSION", "go"+m.GoVersion); err != nil {
			return false, err
		}
	}
	for _, p := range list {
		if err := checker.ParseErrors(p); err != nil {
			return false, err
		}
		checker.CheckRules(p)
		checker.CheckAnalyzers(p)
	}
	issues, metrics, problems := checker.Report()
	if len(issues) == 0 && len(problems) == 0 {
		return false, nil
	}
	metrics.NumFound = len(issues)
	return true, report.CreateReport(os.Stdout, "text", false, []string{dir}, gosec.NewReportInfo(issues, metrics, problems))
}

// read returns the configuration, and the rules that it excludes.
func read(path string) (config gosec.Config, excluded []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	config = gosec.NewConfig()
	if _, err := config.ReadFrom(f); err != nil {
		return nil, nil, err
	}
	list, err := config.GetGlobal(gosec.ExcludeRules)
	return config, strings.Split(list, ","), err
}
