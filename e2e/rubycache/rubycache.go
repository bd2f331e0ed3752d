// Package rubycache keeps the compiled Ruby from one test run to the next:
// compiling it takes far longer than most tests.
package rubycache

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bootstrap/templates/cruby"
)

// Take copies the compiled Ruby of the embedded image to dir, the cache of a
// program that a test starts. If there is none, it does nothing, and the program
// compiles it. The program verifies the files.
func Take(dir string) error {
	from, name, err := kept()
	if err != nil || from == "" {
		return err
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(from, name), now, now)
	err = replace(from, dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another test run replaced it meanwhile
	}
	return err
}

// Keep copies the Ruby that a program compiled into dir, for later test runs,
// and removes those that no test run has used for a month. It replaces one that
// the program did not accept and compiled again.
func Keep(dir string) error {
	to, name, err := kept()
	if err != nil || to == "" {
		return err
	}
	if err := replace(dir, to, name); err != nil {
		return err
	}
	entries, err := os.ReadDir(to)
	for _, e := range entries {
		if info, e2 := e.Info(); e2 == nil && e.IsDir() && time.Since(info.ModTime()) > 30*24*time.Hour {
			err = cmp.Or(err, os.RemoveAll(filepath.Join(to, e.Name())))
		}
	}
	return err
}

// kept returns the folder of the kept Rubies, and the name of the embedded
// image's one in it. The folder is empty if nothing can be kept: there is no
// image, or the user has no folder for caches.
func kept() (dir, name string, err error) {
	about, err := cruby.Embedded()
	if errors.Is(err, cruby.ErrNoImage) {
		return "", "", nil
	}
	cache, noCache := os.UserCacheDir()
	if err != nil || noCache != nil {
		return "", "", err
	}
	return filepath.Join(cache, "bootstrap-test", "ruby"), cruby.CacheName(about), nil
}

// replace copies the folder name of from into to, if from has all of it and to
// has not the same.
func replace(from, to, name string) error {
	sums, err := os.ReadFile(filepath.Join(from, name, "sums"))
	if err != nil || same(to, name, sums) {
		return nil
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(to, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	copied := filepath.Join(scratch, name)
	if err := copyTree(filepath.Join(from, name), copied); err != nil {
		return fmt.Errorf("cannot copy the compiled Ruby: %w", err)
	}
	_ = os.Rename(filepath.Join(to, name), filepath.Join(scratch, "old"))
	err = os.Rename(copied, filepath.Join(to, name))
	if same(to, name, sums) {
		return nil // another test run was faster
	}
	return err
}

// same reports whether the folder name of dir has these sums.
func same(dir, name string, sums []byte) bool {
	have, err := os.ReadFile(filepath.Join(dir, name, "sums"))
	return err == nil && bytes.Equal(have, sums)
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, path[len(from):])
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}
