// Pages writes the man pages and the completion scripts of the program into a folder:
// man/*.1, and completions/ with bootstrap.bash, _bootstrap (zsh), bootstrap.fish and
// bootstrap.ps1. Their date is SOURCE_DATE_EPOCH.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"bootstrap/cmd"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pages FOLDER")
		os.Exit(64)
	}
	if err := write(os.Args[1], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes all pages below dir. Their date is epoch, in seconds since 1970, as
// https://reproducible-builds.org/specs/source-date-epoch defines.
func write(dir, epoch string) error {
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH=%s is not the date of the pages, in seconds since 1970", epoch)
	}
	date := time.Unix(seconds, 0).UTC()
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	root := cmd.Commands()
	return errors.Join(
		writeMan(man, root, date),
		root.GenBashCompletionFileV2(filepath.Join(completions, "bootstrap.bash"), true),
		root.GenZshCompletionFile(filepath.Join(completions, "_bootstrap")),
		root.GenFishCompletionFile(filepath.Join(completions, "bootstrap.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(filepath.Join(completions, "bootstrap.ps1")),
	)
}
